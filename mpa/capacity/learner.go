package capacity

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// A Learner looks for the best limit of one pod.
type Learner interface {
	// Next is the limit to try now.
	Next() int
	// Tell adds the result of a window, whose limit need not be that of Next. It ignores a
	// value that is no window or lacks limit or answers.
	Tell(w Window)
	// Estimate returns the learned capacity; false until limits can be told apart.
	Estimate() (Capacity, bool)
}

// Settings of a learner.
type Settings struct {
	Min, Max int // bounds of the limit, from 1
	Initial  int // limit of the first trial; unguarded, paper draws its own
	// Grid has the limits that may be tried, ascending; nil = all from Min to Max.
	Grid []int
	// Seed of the random draws of a learner.
	Seed uint64
	// Noise is the assumed relative deviation of one trial's throughput before trials measure
	// it; 0 = .05.
	Noise float64
	// Share of the memory limit that the guard lets a pod take; 0 = .85.
	Share float64
	// Unguarded leaves the guard out; for comparisons only.
	Unguarded bool
}

// DefaultSettings reach from 1 to the largest limit of the paper.
func DefaultSettings() Settings { return Settings{Min: 1, Max: 310, Initial: 10} }

// Check returns an error that names the field.
func (s *Settings) Check() error {
	switch {
	case s.Min < 1:
		return fmt.Errorf("min: %d, want 1 or more", s.Min)
	case s.Max < s.Min || s.Max > mostLimit:
		return fmt.Errorf("max: %d, want min %d to %d", s.Max, s.Min, mostLimit)
	case s.Initial < s.Min || s.Initial > s.Max:
		return fmt.Errorf("initial: %d, want min %d to max %d", s.Initial, s.Min, s.Max)
	case !(s.Share >= 0 && s.Share <= mostShare):
		return fmt.Errorf("memory share: %v, want 0 to %v", s.Share, mostShare)
	case !(s.Noise >= 0 && s.Noise < 1):
		return fmt.Errorf("noise: %v, want 0 to 1", s.Noise)
	}
	for i, n := range s.Grid {
		if n < s.Min || n > s.Max || i > 0 && n <= s.Grid[i-1] {
			return fmt.Errorf("grid[%d]: %d, want limits from min %d to max %d, ascending", i, n, s.Min, s.Max)
		}
	}
	return nil
}

// mostLimit bounds limits, and with them the time that the network takes.
const mostLimit = 10_000

func (s *Settings) noise() float64 { return cmp.Or(s.Noise, .05) }

// up returns the smallest allowed limit from n on, or the largest one.
func (s *Settings) up(n float64) int {
	if s.Grid == nil {
		return s.clamp(math.Ceil(n - 1e-9))
	}
	for _, g := range s.Grid {
		if float64(g) >= n-1e-9 {
			return g
		}
	}
	return s.Grid[len(s.Grid)-1]
}

// down returns the largest allowed limit up to n, or the smallest one.
func (s *Settings) down(n float64) int {
	if s.Grid == nil {
		return s.clamp(math.Floor(n + 1e-9))
	}
	for _, g := range slices.Backward(s.Grid) {
		if float64(g) <= n+1e-9 {
			return g
		}
	}
	return s.Grid[0]
}

func (s *Settings) clamp(n float64) int {
	if !(n < float64(s.Max)) { // NaN too
		return s.Max
	}
	return max(s.Min, int(n))
}

// list returns the allowed limits: the grid, or a geometric one.
func (s *Settings) list() []int {
	if s.Grid != nil {
		return s.Grid
	}
	return Geometric(s.Min, s.Max, 1.25)
}

// Geometric returns limits from low to high, each about factor times the one before.
func Geometric(low, high int, factor float64) []int {
	var list []int
	for n := float64(low); n < float64(high); n = max(n*factor, math.Floor(n)+1) {
		list = append(list, int(n))
	}
	return append(list, high)
}

// A kind of learner by its name.
type kind struct {
	name, about string
	make        func(Settings) Learner
}

// kinds in the order that comparisons list them; the first is the default.
var kinds = []kind{
	{"law+walk", "the law's limit, steps around it while they pay, then frozen until drift", newWalk},
	{"law", "demand, Little's law and the closed network, after every trial", newLaw},
	{"golden", "golden section on the list of limits", newGolden},
	{"ucb", "upper confidence bounds, an arm a limit", newUCB},
	{"gradient2", "Netflix's limiter by the gradient of latency", newGradient2},
	{"vegas", "Netflix's limiter by the queue that latency shows", newVegas},
	{"aimd", "one more while all goes well, a tenth less after failures", newAIMD},
	{"paper", "the published agent: tabular Q-learning (CCGrid 2021)", newPaper},
}

// Default is the learner that is used if no name is given.
const Default = "law+walk"

// Names returns the names of the learners.
func Names() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

// About returns a line on a learner.
func About(name string) string {
	for _, k := range kinds {
		if k.name == name {
			return k.about
		}
	}
	return ""
}

// New returns a learner by its name, behind a guard unless the settings leave it out.
func New(name string, s Settings) (Learner, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	for _, k := range kinds {
		if k.name == name {
			if s.Unguarded {
				return heard{k.make(s)}, nil
			}
			return &guarded{learner: k.make(s), settings: s, guard: Guard{Share: s.Share}}, nil
		}
	}
	return nil, fmt.Errorf("unknown learner %q: there are %s", name, strings.Join(Names(), ", "))
}

// heard drops windows that are no trial.
type heard struct{ Learner }

func (h heard) Tell(w Window) {
	if usable(&w) {
		h.Learner.Tell(w)
	}
}

// usable reports whether a window distinguishes its limit from others.
func usable(w *Window) bool {
	return w.Check() == nil && w.Limit.Known && w.Limit.Number >= 1 && w.Limit.Number <= mostLimit && w.Answered.Known
}
