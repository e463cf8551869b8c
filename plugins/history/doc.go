// Package history makes traces of decision logs and recordings, so that a recorded
// cluster can be used for comparisons and training.
// [Read] reads the files of a log; a [History] takes the events one by one.
//
// The package depends neither on Kubernetes nor on policies: a trace has the place and the
// time of each pod, not whose decision it was.
package history
