package usage

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
)

const (
	day  = 86400.0
	hour = 3600.0
	// Window is the number of days that count as history, and that a memory peak is kept.
	Window = 28
	// halfLife is the time in days after which a sample of cpu counts half. The mean age
	// of the counted samples is then 14 days, as of 28 days of equal weight.
	halfLife = 10
	// slots of a week: hours of a weekday, then of a day of the weekend.
	slots = 48
	// enough is the wall time with samples, in seconds, that makes a day one of history: a
	// quarter, so that a workload of office hours has days too.
	enough = day / 4
	// step is the resolution of wall time, in seconds.
	step = 300.0
)

// A History is the use of one workload's pods, or of one of their containers. The zero
// value is empty. It serves one goroutine.
type History struct {
	cpu [slots]histogram
	// era is the number of half-lives from time 0 at which a weight is the seconds of its
	// sample. Eras differ by whole half-lives, so moving from one to another is exact.
	era  int64
	days [Window]dayOf // by day modulo Window

	daily [Window]daily // the same
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

func (c *covered) merge(o *covered) {
	for i := range c {
		c[i] |= o[i]
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
// seconds; multiples of a day are midnights, and time 0 is a Thursday, as of Unix. Samples
// may be in any order. Samples that are no use (negative, not finite) are an error.
func (h *History) AddCPU(at, seconds, cores float64) error {
	if err := check(at, seconds, cores); err != nil {
		return err
	}
	h.reach(int64(math.Floor(at / day / halfLife)))
	weight := seconds * math.Exp2(at/day/halfLife-float64(h.era))
	bucket := bucketOf(cores)
	h.cpu[slotOf(at)].add(bucket, weight)
	h.addDaily(at, seconds, bucket)
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

// reach brings weights to an era, if it is later.
func (h *History) reach(era int64) {
	if h.empty() {
		h.era = era
	}
	if era <= h.era {
		return
	}
	for i := range h.cpu {
		h.cpu[i].scale(math.Exp2(float64(h.era - era)))
	}
	h.era = era
}

func (h *History) empty() bool {
	return !slices.ContainsFunc(h.cpu[:], func(c histogram) bool { return len(c.bucket) > 0 })
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

// slotOf is the hour of a time, from 24 on at the weekend.
func slotOf(at float64) int {
	n := int(mod(int64(math.Floor(at/hour)), 24))
	if weekday := mod(int64(math.Floor(at/day)), 7); weekday == 2 || weekday == 3 { // day 0 is a Thursday
		n += 24
	}
	return n
}

// Merge adds another history, as of another source or of another name of the workload.
// The order of merges does not matter.
func (h *History) Merge(o *History) {
	era := max(h.era, o.era)
	switch {
	case o.empty():
		era = h.era
	case h.empty():
		era = o.era
	}
	h.reach(era)
	h.mergeDaily(o)
	factor := math.Exp2(float64(o.era - h.era))
	for i := range h.cpu {
		other := histogram{slices.Clone(o.cpu[i].bucket), slices.Clone(o.cpu[i].weight)}
		other.scale(factor)
		h.cpu[i].merge(&other)
	}
	for i, theirs := range o.days {
		switch mine := &h.days[i]; {
		case !theirs.seen() || mine.number > theirs.number && mine.seen():
		case mine.number == theirs.number:
			mine.peak = max(mine.peak, theirs.peak)
			mine.cpu.merge(&theirs.cpu)
			mine.memory.merge(&theirs.memory)
		default:
			*mine = theirs
		}
	}
}

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

// CPU is a quantile of the cores in use by one pod, over the whole history: at most 1 %
// too much, never too little. It is 0 without samples.
func (h *History) CPU(quantile float64) float64 {
	var all histogram
	for i := range h.cpu {
		all.merge(&h.cpu[i])
	}
	return all.quantile(quantile)
}

// A Slot has the cpu of an hour of the day, in cores.
type Slot struct{ P50, P95, P99, P999, Max float64 }

// Slot returns the figures of an hour, of weekdays or of the weekend; zeros without samples.
func (h *History) Slot(hourOfDay int, weekend bool) Slot {
	if weekend {
		hourOfDay += 24
	}
	c := &h.cpu[hourOfDay]
	return Slot{c.quantile(.5), c.quantile(.95), c.quantile(.99), c.quantile(.999), c.quantile(1)}
}
