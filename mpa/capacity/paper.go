package capacity

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
)

// paper is the published agent to the letter (Schuler, Jamil, Kühl, 2021): Q-learning in
// a table. Limits are 10, 30 … 310, or the grid of the settings. The state is the limit
// with the bins of cpu and memory utilisation; an action moves one limit down, stays, or
// moves one up, clipped at the ends. The reward is the throughput ÷ the best seen, but 1
// within 5 % of it. α is .5, γ .9; ε is 1 for fifty iterations, then falls by .995 each down
// to .1.
//
// The source leaves open, and this agent chooses: five equal bins of each utilisation, the
// highest with all above; the first limit drawn; among equal actions to stay, then down; the
// best throughput is updated after the reward, and is the first trial's for the first reward.
type paper struct {
	limits  []int
	draw    func() (float64, int) // from [0, 1), and an action
	at      int                   // place of the limit that is tried
	steps   int                   // trials
	epsilon float64
	best    float64 // throughput
	q       map[paperState][3]float64
	state   paperState
	action  int // that led to the limit tried; −1 = no action yet
	rate    float64
	noise   float64
	answer  int // place that the greedy action leads to
}

type paperState struct{ limit, cpu, memory int }

const (
	paperAlpha   = .5
	paperGamma   = .9
	paperRandom  = 50 // iterations with ε = 1
	paperDecay   = .995
	paperLeast   = .1 // ε
	paperNear    = .05
	paperBins    = 5
	paperStream  = 0x9a9e4
	paperStay    = 1
	paperActions = 3 // down, stay, up
)

func newPaper(s Settings) Learner {
	limits := s.Grid
	if limits == nil {
		for n := 10; n <= 310; n += 20 {
			if n >= s.Min && n <= s.Max {
				limits = append(limits, n)
			}
		}
		if limits == nil {
			limits = []int{s.Min}
		}
	}
	rng := rand.New(rand.NewPCG(s.Seed, paperStream))
	draw := func() (float64, int) { return rng.Float64(), rng.IntN(paperActions) }
	p := &paper{limits: limits, draw: draw, epsilon: 1, q: map[paperState][3]float64{}, action: -1, noise: s.noise()}
	p.at = rng.IntN(len(limits))
	p.answer = p.at
	return p
}

func (p *paper) Next() int { return p.limits[p.at] }

// bin returns the bin of a utilisation; a missing one counts as 0.
func bin(share Value) int {
	return max(0, min(paperBins-1, int(math.Floor(share.Number*paperBins))))
}

func (p *paper) Tell(w Window) {
	p.rate = w.rate().Number
	for i, n := range p.limits {
		if float64(n) == w.Limit.Number {
			p.at = i // a guard may have held it
		}
	}
	now := paperState{p.at, bin(w.utilisation()), bin(w.share())}
	p.best = cmp.Or(p.best, p.rate)
	if p.action >= 0 && p.best > 0 {
		reward := p.rate / p.best
		if math.Abs(reward-1) <= paperNear {
			reward = 1
		}
		values := p.q[p.state]
		values[p.action] += paperAlpha * (reward + paperGamma*p.value(now) - values[p.action])
		p.q[p.state] = values
	}
	p.best = max(p.best, p.rate)
	p.steps++
	if p.steps > paperRandom {
		p.epsilon = max(paperLeast, p.epsilon*paperDecay)
	}
	greedy := p.greedy(now)
	p.answer = p.to(greedy)
	p.action = greedy
	if u, action := p.draw(); u < p.epsilon {
		p.action = action
	}
	p.state, p.at = now, p.to(p.action)
}

// to returns the place that an action leads to.
func (p *paper) to(action int) int {
	return max(0, min(len(p.limits)-1, p.at+action-paperStay))
}

func (p *paper) value(s paperState) float64 {
	v := p.q[s]
	return max(v[0], v[1], v[2])
}

// greedy returns the best action; of equal ones staying, then down.
func (p *paper) greedy(s paperState) int {
	v, action := p.q[s], paperStay
	for _, a := range []int{0, 2} {
		if v[a] > v[action] {
			action = a
		}
	}
	return action
}

func (p *paper) Estimate() (Capacity, bool) {
	if p.steps == 0 {
		return Capacity{}, false
	}
	f := fit{noise: p.noise}
	return f.capacity(p.limits[p.answer], p.rate, 1, fmt.Sprintf("the best action of the table after %d trials", p.steps)), true
}
