package main

import "syscall"

// threadSeconds is the CPU time of the calling thread.
func threadSeconds() float64 {
	const thread = 1 // RUSAGE_THREAD
	var use syscall.Rusage
	if err := syscall.Getrusage(thread, &use); err != nil {
		return 0
	}
	return float64(use.Utime.Nano()+use.Stime.Nano()) / 1e9
}
