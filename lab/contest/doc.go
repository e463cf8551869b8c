// Package contest lets the learners of package capacity look for the best limit of drawn
// pods whose true throughput at every limit is known.
package contest
