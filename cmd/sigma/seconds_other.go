//go:build !linux

package main

import "time"

// threadSeconds is the CPU time of the calling thread; where the system does not report
// it, the elapsed time.
func threadSeconds() float64 { return float64(time.Now().UnixNano()) / 1e9 }

// processSeconds is that of all threads; the same here.
func processSeconds() float64 { return threadSeconds() }
