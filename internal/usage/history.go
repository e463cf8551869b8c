package usage

import (
	"fmt"
	"math"
	"math/bits"
)

const (
	day = 86400.0
	// Window is the number of days that count as history, and that a memory peak is kept.
	Window = 28
	// enough is the wall time with samples, in seconds, that makes a day one of history: a
	// quarter, so that a workload of office hours has days too.
	enough = day / 4
	// step is the resolution of wall time, in seconds.
	step = 300.0
)

// A History is the use of one workload's pods, or of one of their containers. The zero
// value is empty. It serves one goroutine.
type History struct {
	days  [Window]dayOf // by day modulo Window
	pods  dailies       // cores in use by one pod
	means dailies       // and by the mean pod: see [Means]
}

// A dayOf is one day of the history.
type dayOf struct {
	number int64   // days since time 0
	peak   float64 // of memory, in bytes
	cpu    covered
	memory covered
}

// seen reports whether the day has a sample.
func (d *dayOf) seen() bool { return d.cpu != covered{} || d.memory != covered{} || d.peak > 0 }

// covered has a bit for each step of a day with a sample. Replicas at the same time cover
// it once.
type covered [int(day/step+63) / 64]uint64

// add covers the steps that a sample touches, up to the end of its day.
func (c *covered) add(at, seconds float64) {
	from := at - day*math.Floor(at/day)
	last := min(math.Ceil((from+seconds)/step), day/step)
	for i := int(from / step); i < int(last); i++ {
		c[i/64] |= 1 << (i % 64)
	}
}

// seconds are the wall time with samples.
func (c *covered) seconds() float64 {
	n := 0
	for _, w := range c {
		n += bits.OnesCount64(w)
	}
	return float64(n) * step
}

// AddCPU counts a mean use in cores over so many seconds from a time on. Times are in
// seconds; multiples of a day are midnights. Samples may be in any order. Samples that are no use (negative, not finite) are an error.
func (h *History) AddCPU(at, seconds, cores float64) error {
	if err := check(at, seconds, cores); err != nil {
		return err
	}
	h.pods.add(at, seconds, bucketOf(cores))
	if d := h.day(at); d != nil {
		d.cpu.add(at, seconds)
	}
	return nil
}

// AddMemory counts the largest working set in bytes in so many seconds from a time on, as
// [History.AddCPU].
func (h *History) AddMemory(at, seconds, bytes float64) error {
	if err := check(at, seconds, bytes); err != nil {
		return err
	}
	if d := h.day(at); d != nil {
		d.peak = max(d.peak, bytes)
		d.memory.add(at, seconds)
	}
	return nil
}

// RaiseMemory counts a working set of at least so many bytes at a time, in which a part of the pod was not
// measured: it may be the peak, and covers no time.
func (h *History) RaiseMemory(at, bytes float64) {
	if d := h.day(at); d != nil {
		d.peak = max(d.peak, bytes)
	}
}

func check(at, seconds, value float64) error {
	const far = 1 << 53
	if !(seconds > 0 && seconds <= day) {
		return fmt.Errorf("usage: a sample over %v seconds: want more than 0, at most a day", seconds)
	}
	if !(math.Abs(at) < far) || !(value >= 0 && value < far) {
		return fmt.Errorf("usage: a sample of %v at %v: want a finite amount of at least 0", value, at)
	}
	return nil
}

// day is the record of a time's day, nil if a later day took its place.
func (h *History) day(at float64) *dayOf {
	number := int64(math.Floor(at / day))
	d := &h.days[mod(number, Window)]
	if d.number > number && d.seen() {
		return nil
	}
	if d.number != number {
		*d = dayOf{number: number}
	}
	return d
}

func mod(n, m int64) int64 { return (n%m + m) % m }

// Days are the numbers of the last [Window] days before a time whose wall time is covered by
// samples for at least a quarter, of cpu and of memory.
func (h *History) Days(at float64) (cpu, memory int) {
	for i := range h.days {
		d := &h.days[i]
		if h.recent(d, at) && d.cpu.seconds() >= enough {
			cpu++
		}
		if h.recent(d, at) && d.memory.seconds() >= enough {
			memory++
		}
	}
	return cpu, memory
}

// Coverage is the share of the wall time with samples of cpu, from the first of the last
// [Window] days with a sample to a time. The rest is gaps, or time without a pod: no use.
func (h *History) Coverage(at float64) float64 {
	seconds, first := 0., at
	for i := range h.days {
		if d := &h.days[i]; h.recent(d, at) && d.cpu != (covered{}) {
			seconds += d.cpu.seconds()
			first = min(first, float64(d.number)*day)
		}
	}
	if seconds == 0 {
		return 0
	}
	return min(1, seconds/(at-first))
}

// MemoryPeak is the largest working set of the last [Window] days before a time; ok is false without samples.
func (h *History) MemoryPeak(at float64) (bytes float64, ok bool) {
	for i := range h.days {
		if d := &h.days[i]; h.recent(d, at) {
			bytes, ok = max(bytes, d.peak), ok || d.memory != (covered{})
		}
	}
	return bytes, ok
}

func (h *History) recent(d *dayOf, at float64) bool {
	today := int64(math.Ceil(at / day))
	return d.number >= today-Window && d.number < today
}
