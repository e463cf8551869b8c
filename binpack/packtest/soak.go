package packtest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A Soak counts the events of a server and samples the memory of the process.
type Soak struct {
	tb      testing.TB
	name    string
	most    int // events
	events  int
	samples []sample
}

type sample struct {
	events, heap, files, goroutines int
}

// soakSamples are taken of a run.
const soakSamples = 50

// NewSoak returns the soak of a server: so many events long, or SIGMA_SOAK_EVENTS.
func NewSoak(tb testing.TB, name string, events int) *Soak {
	tb.Helper()
	s := &Soak{tb: tb, name: name, most: events}
	if text := os.Getenv("SIGMA_SOAK_EVENTS"); text != "" {
		var err error
		s.most, err = strconv.Atoi(text)
		require.NoError(tb, err, "SIGMA_SOAK_EVENTS")
	}
	return s
}

// Event counts one and reports whether more will follow. It returns false once.
func (s *Soak) Event() bool {
	if s.events++; s.events%max(1, s.most/soakSamples) == 0 {
		s.samples = append(s.samples, s.sample())
	}
	return s.events < s.most
}

func (s *Soak) sample() sample {
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	open, err := os.ReadDir("/proc/self/fd")
	require.NoError(s.tb, err)
	return sample{s.events, int(mem.HeapAlloc), len(open), runtime.NumGoroutine()}
}

// Flat fails the test if heap, files or goroutines are more at the end than after the first
// half, and writes the samples to a file in the folder SIGMA_SOAK.
func (s *Soak) Flat() {
	s.tb.Helper()
	half := len(s.samples) / 2
	first, last := s.samples[half:half+half/2], s.samples[half+half/2:]
	highest := func(list []sample, of func(sample) int) int {
		most := 0
		for _, x := range list {
			most = max(most, of(x))
		}
		return most
	}
	const noise = 2 << 20
	heap := func(x sample) int { return x.heap }
	require.LessOrEqual(s.tb, highest(last, heap), highest(first, heap)*6/5+noise, "bytes on the heap")
	for name, of := range map[string]func(sample) int{
		"open files": func(x sample) int { return x.files }, "goroutines": func(x sample) int { return x.goroutines },
	} {
		require.LessOrEqual(s.tb, highest(last, of), highest(first, of)+2, name)
	}
	dir := os.Getenv("SIGMA_SOAK")
	if dir == "" {
		return
	}
	var b strings.Builder
	for _, x := range s.samples {
		fmt.Fprintf(&b, "%d,%.1f,%d,%d\n", x.events, float64(x.heap)/(1<<20), x.files, x.goroutines)
	}
	require.NoError(s.tb, os.WriteFile(filepath.Join(dir, s.name+".csv"), []byte(b.String()), 0o600))
}
