// Package cputime measures the processor time that a thread or the process has used: on a
// shared machine the clock on the wall says little.
package cputime

import "golang.org/x/sys/unix"

// Thread is the processor time of the calling thread in seconds. (Getrusage lags behind by a
// tick of the kernel, which is longer than a small replay.)
func Thread() float64 { return seconds(unix.CLOCK_THREAD_CPUTIME_ID) }

// Process is the processor time of all threads in seconds.
func Process() float64 { return seconds(unix.CLOCK_PROCESS_CPUTIME_ID) }

func seconds(clock int32) float64 {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0
	}
	return float64(t.Nano()) / 1e9
}
