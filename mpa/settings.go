package mpa

import (
	"fmt"
	"math"
	"time"
)

// Guards bound what is done of what an agent would like.
type Guards struct {
	// MaxAge of the newest usage: nothing is done on older data.
	MaxAge time.Duration `json:"maxAgeNanoseconds"`
	// Step is the largest change of a request at once, as a share of it.
	Step float64 `json:"step"`
	// DeadBand is the share by which a request has to differ to be changed.
	DeadBand float64 `json:"deadBand"`
	// ReplicaChanges and RequestChanges are the most in any hour. Shrinking may use
	// half of them, so that there is always one left to grow.
	ReplicaChanges int `json:"replicaChanges"`
	RequestChanges int `json:"requestChanges"`
	// CoolDown is the least time between two changes of requests, and between any
	// change and one that shrinks.
	CoolDown time.Duration `json:"coolDownNanoseconds"`
	// Headroom over the largest memory that was seen in PeakWindow; memory is never
	// asked for below.
	Headroom   float64       `json:"headroom"`
	PeakWindow time.Duration `json:"peakWindowNanoseconds"`
	// Gap between two observations from which on, as when time goes back, the clock is
	// taken to have jumped: nothing is done at once, and the time in between counts
	// for no limit.
	Gap time.Duration `json:"gapNanoseconds"`
	// Patience with pods that do not start and resizes that wait for room; then they no
	// longer hold up the other dimension. With usage that was missing too: nothing
	// shrinks until it has been back for that long, or for its window if that is longer.
	Patience time.Duration `json:"patienceNanoseconds"`
}

// DefaultGuards are those of a controller that is not told otherwise.
func DefaultGuards() Guards {
	return Guards{
		MaxAge: 2 * time.Minute, Step: .5, DeadBand: .1,
		ReplicaChanges: 12, RequestChanges: 6, CoolDown: time.Minute,
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
	case g.ReplicaChanges < 0 || g.RequestChanges < 0:
		return fmt.Errorf("guards: replicaChanges %d, requestChanges %d: want at least 0", g.ReplicaChanges, g.RequestChanges)
	}
	return nil
}
