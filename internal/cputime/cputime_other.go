//go:build !linux

package cputime

import (
	"errors"
	"time"
)

// Thread is the processor time of the calling thread in seconds; where the system does not
// report it, the elapsed time.
func Thread() float64 { return float64(time.Now().UnixNano()) / 1e9 }

// Process is that of all threads; the same here.
func Process() float64 { return Thread() }

// All is that of the children too; the same here.
func All() float64 { return Thread() }

// Of is that of another process, which needs Linux.
func Of(int) (float64, error) {
	return 0, errors.New("the processor time of another process needs Linux")
}
