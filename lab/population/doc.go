// Package population is the model population, for instances of one dimension: an
// item goes where it raises the expected waste of all machines the least.
package population
