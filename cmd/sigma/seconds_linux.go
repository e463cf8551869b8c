package main

import "golang.org/x/sys/unix"

// threadSeconds is the CPU time of the calling thread. (Getrusage lags behind
// by a tick of the kernel, which is longer than a small replay.)
func threadSeconds() float64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return float64(t.Nano()) / 1e9
}
