package cputime

import (
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// chunk is a number of turns that takes about chunkNanos of a free core.
var (
	chunk      = 1000
	chunkNanos int64
	sink       atomic.Uint64
)

// Calibrate measures the time of a chunk; call it once before [Spend].
func Calibrate() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		least := int64(1 << 62)
		for range 50 {
			begin := threadNanos()
			turn(chunk)
			least = min(least, threadNanos()-begin)
		}
		if chunkNanos = least; least > 15_000 {
			return
		}
		chunk *= 2
	}
}

// Spend computes until it has spent nanoseconds of cpu by the clock of its thread,
// which is the one that the quota is charged by: a core that a neighbour slows down
// makes a request no cheaper for the quota. A chunk between whose ends the
// goroutine was moved to another thread counts as a usual one.
func Spend(nanos int64) {
	begin := threadNanos()
	for nanos > 0 {
		n := chunk
		if nanos < chunkNanos {
			n = int(int64(chunk) * nanos / chunkNanos)
		}
		turn(n)
		end := threadNanos()
		spent := end - begin
		if begin = end; spent <= 0 || spent > 5*chunkNanos {
			spent = chunkNanos * int64(n) / int64(chunk)
		}
		nanos -= max(1, spent)
	}
}

//go:noinline
func turn(n int) {
	x := uint64(n) | 1
	for range n {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	sink.Store(x)
}

// threadNanos reads the clock of the thread by a raw system call: the Go scheduler does not
// notice it, so no other goroutine runs at this point.
func threadNanos() int64 {
	var ts unix.Timespec
	_, _, _ = unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_THREAD_CPUTIME_ID, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}
