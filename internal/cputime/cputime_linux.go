package cputime

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Thread is the processor time of the calling thread in seconds. (Getrusage lags behind by a
// tick of the kernel, which is longer than a small replay.)
func Thread() float64 { return seconds(unix.CLOCK_THREAD_CPUTIME_ID) }

// Process is the processor time of all threads in seconds, those that ended included.
func Process() float64 { return seconds(unix.CLOCK_PROCESS_CPUTIME_ID) }

// Of is that of another process that runs, without its children.
func Of(pid int) (float64, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(^int32(pid)<<3|2, &t); err != nil { // clock_getcpuclockid(3)
		return 0, fmt.Errorf("the processor time of process %d: %w", pid, err)
	}
	return float64(t.Nano()) / 1e9, nil
}

// All is the processor time of this process and of the children that ended and were waited for.
func All() float64 {
	var use unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &use); err != nil {
		return Process()
	}
	return Process() + float64(use.Utime.Nano()+use.Stime.Nano())/1e9
}

func seconds(clock int32) float64 {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0
	}
	return float64(t.Nano()) / 1e9
}
