// Package history makes traces of decision logs and recordings: what a scheduler
// or a snapshot wrote down about a cluster, as something that can be compared and
// trained on. [Read] takes the files of a log, a [History] the events one by one.
//
// The package knows no Kubernetes, and nothing of how decisions are made: who
// placed a pod does not matter to a trace, only where it stood and when.
package history
