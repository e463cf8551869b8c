package main

import "golang.org/x/sys/unix"

// threadSeconds is the CPU time of the calling thread. (Getrusage lags behind
// by a tick of the kernel, which is longer than a small replay.)
func threadSeconds() float64 { return clockSeconds(unix.CLOCK_THREAD_CPUTIME_ID) }

// processSeconds is the CPU time of all threads.
func processSeconds() float64 { return clockSeconds(unix.CLOCK_PROCESS_CPUTIME_ID) }

func clockSeconds(clock int32) float64 {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0
	}
	return float64(t.Nano()) / 1e9
}
