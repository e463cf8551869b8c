package mpa

import (
	"fmt"
	"math"
	"time"
)

// Guards are the settings of the guards, which bound an agent's recommendations.
type Guards struct {
	// MaxAge of usage: the controller does not act on older data.
	MaxAge time.Duration `json:"maxAgeNanoseconds"`
	// Step is the largest change of a request in one action, as a share of it.
	Step float64 `json:"step"`
	// DeadBand is the smallest change of a request, as a share of it.
	DeadBand float64 `json:"deadBand"`
	// ReplicaChanges and RequestChanges are the most changes in any hour. Shrinking may
	// use half of them. Growth has no limit: more replicas, larger requests where CPUChanges
	// is not 0, and more memory after a kill.
	ReplicaChanges int `json:"replicaChanges"`
	RequestChanges int `json:"requestChanges"`
	// CPUChanges are the most changes of cpu alone in any hour: made in place, they restart
	// nothing. RequestChanges are then the most of all others. 0, as in journals without the
	// field = changes of cpu count among RequestChanges.
	CPUChanges int `json:"cpuChanges,omitempty"`
	// CoolDown is the least time between two changes of requests, and between any
	// change and one that shrinks.
	CoolDown time.Duration `json:"coolDownNanoseconds"`
	// Headroom is the factor over the largest memory observed in PeakWindow; a request for
	// memory is never below that.
	Headroom   float64       `json:"headroom"`
	PeakWindow time.Duration `json:"peakWindowNanoseconds"`
	// Gap is the longest time between two observations that does not count as a jump of
	// the clock; a step back always does. After a jump the controller holds once, and
	// remembered times move with the clock.
	Gap time.Duration `json:"gapNanoseconds"`
	// Patience is the time for which pods that do not start and resizes that wait for room
	// delay other changes. After usage was missing, nothing shrinks until it has been back
	// for as long, or for its window if that is longer.
	Patience time.Duration `json:"patienceNanoseconds"`
}

// DefaultGuards returns the default settings.
func DefaultGuards() Guards {
	return Guards{
		MaxAge: 2 * time.Minute, Step: .5, DeadBand: .1,
		ReplicaChanges: 12, RequestChanges: 6, CPUChanges: 30, CoolDown: time.Minute,
		Headroom: 1.2, PeakWindow: 24 * time.Hour, Gap: 10 * time.Minute, Patience: 5 * time.Minute,
	}
}

// Validate reports the first thing that is wrong with guards.
func (g *Guards) Validate() error {
	switch {
	case g.MaxAge <= 0 || g.Gap <= 0 || g.PeakWindow <= 0:
		return fmt.Errorf("guards: maxAge %v, gap %v, peakWindow %v: want more than 0", g.MaxAge, g.Gap, g.PeakWindow)
	case g.CoolDown < 0 || g.Patience < 0:
		return fmt.Errorf("guards: coolDown %v, patience %v: want at least 0", g.CoolDown, g.Patience)
	case !(g.Step > 0) || !(g.DeadBand >= 0):
		return fmt.Errorf("guards: step %v, deadBand %v: want more than 0, at least 0", g.Step, g.DeadBand)
	case !(g.Headroom >= 0 && g.Headroom <= math.MaxFloat64):
		return fmt.Errorf("guards: headroom %v: want a number from 0 up", g.Headroom)
	case g.ReplicaChanges < 0 || g.RequestChanges < 0 || g.CPUChanges < 0:
		return fmt.Errorf("guards: replicaChanges %d, requestChanges %d, cpuChanges %d: want at least 0", g.ReplicaChanges, g.RequestChanges, g.CPUChanges)
	}
	return nil
}
