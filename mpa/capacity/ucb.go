package capacity

import (
	"fmt"
	"math"
)

// ucb is UCB1 (Auer, Cesa-Bianchi, Fischer, 2002) with an arm a limit: the mean
// throughput, as a share of the best seen, plus √(2 ln t ÷ tries) times a tenth, as
// throughputs are less spread than rewards from 0 to 1. Arms begin in the order of the
// list.
type ucb struct {
	list  []int
	tries []float64
	sum   []float64
	best  float64 // throughput
	total float64
	noise float64
}

const ucbWidth = .1

func newUCB(s Settings) Learner {
	list := s.list()
	return &ucb{list: list, tries: make([]float64, len(list)), sum: make([]float64, len(list)), noise: s.noise()}
}

func (u *ucb) Next() int { return u.list[u.arm(ucbWidth)] }

// arm returns the place of the arm with the highest bound; the first that has not been
// tried before all others.
func (u *ucb) arm(width float64) int {
	arm, high := 0, math.Inf(-1)
	for i := range u.list {
		if u.tries[i] == 0 {
			if width > 0 {
				return i
			}
			continue
		}
		bound := u.sum[i]/u.tries[i]/u.best + width*math.Sqrt(2*math.Log(u.total)/u.tries[i])
		if bound > high {
			arm, high = i, bound
		}
	}
	return arm
}

func (u *ucb) Tell(w Window) {
	rate := w.rate().Number
	if w.Failing() {
		rate = 0
	}
	// A limit that the guard held speaks for the arm that was asked for, too.
	place := u.arm(ucbWidth)
	if float64(u.list[place]) <= w.Limit.Number {
		place = 0
		for i, n := range u.list {
			if float64(n) <= w.Limit.Number {
				place = i
			}
		}
	}
	u.tries[place]++
	u.sum[place] += rate
	u.best = max(u.best, rate, 1e-9)
	u.total++
}

func (u *ucb) Estimate() (Capacity, bool) {
	if u.total == 0 {
		return Capacity{}, false
	}
	i := u.arm(0)
	f := fit{noise: u.noise}
	return f.capacity(u.list[i], u.sum[i]/u.tries[i], int(u.tries[i]), fmt.Sprintf("the best mean of %d arms", len(u.list))), true
}
