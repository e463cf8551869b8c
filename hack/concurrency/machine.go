package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// loadAverage is the machine's, of a minute; "unknown" where it does not say.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// processCPU is what a process has used, in seconds.
func processCPU(pid int) (sum float64, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(threads) == 0 {
		return 0, fmt.Errorf("process %d: no threads: %w", pid, os.ErrNotExist)
	}
	for _, path := range threads {
		text, err := os.ReadFile(path)
		if err != nil {
			return 0, err
		}
		first, _, _ := strings.Cut(string(text), " ")
		nanos, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", path, err)
		}
		sum += float64(nanos) / 1e9
	}
	return sum, nil
}
