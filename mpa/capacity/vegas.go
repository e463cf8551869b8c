package capacity

import "math"

// vegas is Netflix's VegasLimit (concurrency-limits) with its defaults, after TCP Vegas
// (Brakmo, Peterson, 1995): the queue is limit · (1 − least ÷ present latency). Below
// log₁₀ limit the limit grows by 6 log₁₀ limit, below 3 log₁₀ by one, above 6 log₁₀ it
// falls by one; after failures too.
type vegas struct {
	limiter
	least float64 // seconds
}

func newVegas(s Settings) Learner { return &vegas{limiter: newLimiter(s, "vegas")} }

func (v *vegas) Tell(w Window) {
	seconds := v.hear(&w)
	step := max(1, math.Log10(v.limit))
	if w.Failing() {
		v.set(v.limit - step)
		return
	}
	if seconds == 0 {
		return
	}
	if v.least == 0 || seconds < v.least {
		v.least = seconds
	}
	if w.Inside.Known && w.Inside.Number < v.limit/2 {
		return
	}
	queue := math.Ceil(v.limit * (1 - v.least/seconds))
	switch {
	case queue <= step:
		v.set(v.limit + 6*step)
	case queue < 3*step:
		v.set(v.limit + step)
	case queue > 6*step:
		v.set(v.limit - step)
	}
}
