package main

import (
	"os"
	"strings"
)

// loadAverage is the machine's, of a minute; "unknown" if it cannot be read.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
