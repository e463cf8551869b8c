package loadsim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// A Load is a rate of requests over time, constant within steps of equal length. After the
// last step it starts again.
type Load struct {
	Step   float64   // seconds
	PerSec []float64 // rate in each step
	// Burst is the coefficient of variation of the rate from second to second within each
	// step, beyond that of a Poisson process. nil = steady.
	Burst []float64
}

// Rate returns the rate at a time, without bursts, and until when it lasts.
func (l Load) Rate(t float64) (perSecond, until float64) {
	i := l.at(t)
	return l.PerSec[i%len(l.PerSec)], float64(i+1) * l.Step
}

func (l Load) at(t float64) int { return int(math.Floor(t/l.Step + 1e-9)) }

// Arrivals is a rate over time: the rate at t, and until when it is constant.
type Arrivals func(t float64) (perSecond, until float64)

// Arrivals returns the rate with bursts. The rates of the seconds of a step are drawn from
// a gamma distribution and then scaled to the step's mean.
func (l Load) Arrivals(seed uint64) Arrivals {
	if l.Burst == nil {
		return l.Rate
	}
	step, factors := -1, make([]float64, max(1, int(math.Ceil(l.Step))))
	return func(t float64) (perSecond, until float64) {
		rate, until := l.Rate(t)
		i := l.at(t)
		cv := l.Burst[i%len(l.Burst)]
		if rate == 0 || cv == 0 {
			return rate, until
		}
		if i != step {
			step = i
			shape := 1 / (cv * cv)
			gamma := distuv.Gamma{Alpha: shape, Beta: shape, Src: rand.NewPCG(seed^0xb0a57, uint64(i))}
			sum := 0.0
			for k := range factors {
				factors[k] = gamma.Rand()
				sum += factors[k]
			}
			for k := range factors {
				factors[k] *= float64(len(factors)) / sum
			}
		}
		begin := float64(i) * l.Step
		k := min(int(t-begin+1e-6), len(factors)-1)
		return rate * factors[k], min(until, begin+float64(k+1))
	}
}

// Peak returns the largest rate of a step.
func (l Load) Peak() float64 { return slices.Max(l.PerSec) }

// Scale returns the load scaled to a largest rate. A load without requests stays as it is.
func (l Load) Scale(most float64) Load {
	high := l.Peak()
	if high == 0 {
		return l
	}
	out := l
	out.PerSec = make([]float64, len(l.PerSec))
	for i, r := range l.PerSec {
		out.PerSec[i] = r / high * most
	}
	return out
}

// From returns the load from a time on.
func (l Load) From(seconds float64) (Load, error) {
	i := int(seconds / l.Step)
	if i >= len(l.PerSec) {
		return Load{}, fmt.Errorf("the load has %.4g hours", float64(len(l.PerSec))*l.Step/3600)
	}
	l.PerSec = l.PerSec[i:]
	if l.Burst != nil {
		l.Burst = l.Burst[i:]
	}
	return l, nil
}

// Fill replaces steps without requests, the gaps of a recording, by straight lines. It also
// returns how many there were.
func (l Load) Fill() (filled Load, gaps int) {
	out := l
	out.PerSec = slices.Clone(l.PerSec)
	last := -1 // the last step with requests
	for i, r := range l.PerSec {
		if r == 0 {
			gaps++
			continue
		}
		for k := last + 1; k < i; k++ {
			before := r
			if last >= 0 {
				before = l.PerSec[last]
			}
			out.PerSec[k] = before + (r-before)*float64(k-last)/float64(i-last)
		}
		last = i
	}
	if last >= 0 {
		for k := last + 1; k < len(l.PerSec); k++ {
			out.PerSec[k] = l.PerSec[last]
		}
	}
	return out, gaps
}
