// Package clusters writes dumps of clusters in the style of several clouds, for `sigma savings`, and checks plans for them.
// It reads and writes plain JSON: it shares no code with the product, with the readers of dumps, or with
// lab/dump.
package clusters
