// Package cputime measures processor time, user and system: on a shared machine the wall clock
// means little. All CPU-seconds of pages, tests and tools are its.
package cputime

import "os"

// Ended is the processor time of a process that ended, with the children that it waited for; 0 of
// one that did not begin.
func Ended(state *os.ProcessState) float64 {
	if state == nil {
		return 0
	}
	return (state.UserTime() + state.SystemTime()).Seconds()
}
