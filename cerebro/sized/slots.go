package sized

import (
	"github.com/sigma-scheduler/sigma/internal/usage"
)

// BySlot makes ready for [Sizes.Expected], before the first size is found: histories by slot take memory.
func (s *Sizes) BySlot() {
	s.slots = make([]*usage.Slots, len(s.histories))
	for a := range s.slots {
		s.slots[a] = &usage.Slots{}
	}
}

// Expected are the cores of one item of each app in the slot of a time: its p99 by the samples before
// a midnight, or the size where the slot has too few days, or the app counts by request. It keeps the sizes as [Sizes.Demands].
func (s *Sizes) Expected(midnight, at float64) func(app int32) float64 {
	slots, slot := s.night(midnight).slots, usage.SlotOf(at)
	return func(app int32) float64 { return slots[app][slot] }
}

func (s *Sizes) bySlot(at float64, sizes []usage.Size) [][usage.SlotCount]float64 {
	out := make([][usage.SlotCount]float64, len(sizes))
	for a := range sizes {
		out[a] = usage.SlotsOf(s.slots[a], &sizes[a], s.leastDays, at)
	}
	return out
}
