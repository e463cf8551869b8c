package usage

import (
	"math"
	"slices"
)

// SlotCount is the number of slots of a week: 24 hours of weekdays, then 24 of weekends.
const SlotCount = 48

// SlotOf is the slot of a time in seconds, by UTC: time 0 is a Thursday, as of Unix.
func SlotOf(at float64) int {
	number := int64(math.Floor(at / day))
	slot := min(23, int((at-float64(number)*day)/hourSeconds))
	if weekend(number) {
		slot += 24
	}
	return slot
}

const hourSeconds = 3600.

func weekend(number int64) bool { return mod(number, 7) == 2 || mod(number, 7) == 3 }

// Slots are the use of cpu of one workload's pods by slot, of the last [Window] days. The zero
// value is empty: 32 KiB, and 10 bytes for each bucket that an hour of a day fills. It serves one goroutine.
type Slots struct {
	numbers [Window]int64 // of the days, by day modulo Window
	hours   [Window][24]histogram
}

// AddCPU counts a mean use in cores as [History.AddCPU] does. A sample counts in the slot of its beginning.
func (s *Slots) AddCPU(at, seconds, cores float64) error {
	if err := check(at, seconds, cores); err != nil {
		return err
	}
	number := int64(math.Floor(at / day))
	i := mod(number, Window)
	switch old := s.numbers[i]; {
	case old > number && s.seen(i):
		return nil
	case old != number:
		s.numbers[i], s.hours[i] = number, [24]histogram{}
	}
	s.hours[i][SlotOf(at)%24].add(bucketOf(cores), seconds)
	return nil
}

func (s *Slots) seen(i int64) bool {
	return slices.ContainsFunc(s.hours[i][:], func(h histogram) bool { return len(h.bucket) > 0 })
}

// Quantiles are the quantiles of the cores in use by one pod in each slot, over the last
// [Window] days before a time: at most 1 % too much, never too little. NaN is a slot with
// samples on too few days: fewer than the share of leastDays of [Window] in its own days.
func (s *Slots) Quantiles(q, at float64, leastDays int) (out [SlotCount]float64) {
	today := int64(math.Ceil(at / day))
	var all histogram
	var sums [buckets]float64
	for slot := range out {
		days, of, total := 0, 0, 0.
		lowest, highest := buckets, -1
		for number := today - Window; number < today; number++ {
			if weekend(number) != (slot >= 24) {
				continue
			}
			of++
			i := mod(number, Window)
			h := &s.hours[i][slot%24]
			if s.numbers[i] != number || len(h.bucket) == 0 {
				continue
			}
			days++
			for k, b := range h.bucket {
				sums[b] += h.weight[k]
				total += h.weight[k]
			}
			lowest, highest = min(lowest, int(h.bucket[0])), max(highest, int(h.bucket[len(h.bucket)-1]))
		}
		out[slot] = math.NaN()
		all.bucket, all.weight = all.bucket[:0], all.weight[:0]
		for b := lowest; b <= highest; b++ {
			if sums[b] > 0 {
				all.bucket, all.weight = append(all.bucket, uint16(b)), append(all.weight, sums[b])
				sums[b] = 0
			}
		}
		if days > 0 && days*Window >= leastDays*of {
			out[slot] = quantileOf(q, &all, &histogram{})
		}
	}
	return out
}

// SlotsOf are the cores to expect of one pod by slot: the p99 of the slot, at least the floor, or the size of the
// workload where the slot has too few days. A workload that counts by request, for whatever reason, does so in all slots.
func SlotsOf(s *Slots, size *Size, leastDays int, at float64) (out [SlotCount]float64) {
	if s != nil && !size.CPUReason.ByRequest() {
		out = s.Quantiles(Quantile, at, max(1, leastDays))
	}
	for slot, v := range out {
		if v != v || s == nil || size.CPUReason.ByRequest() {
			out[slot] = size.CPU
		} else {
			out[slot] = max(v, FloorCPU)
		}
	}
	return out
}
