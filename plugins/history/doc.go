// Package history makes traces of decision logs and recordings, so that what a
// scheduler or a snapshot recorded of a cluster can be compared and trained on.
// [Read] reads the files of a log; a [History] takes the events one by one.
//
// The package knows neither Kubernetes nor policies: a trace says where each pod
// stood and when, not whose decision it was.
package history
