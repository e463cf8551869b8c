package capacity

import "cmp"

// gradient2 is Netflix's Gradient2Limit (concurrency-limits) with its defaults: the limit
// follows limit · clamp(1.5 · long ÷ short, .5, 1) + 4 with a weight of .2, where short is
// the present latency and long its mean over 600 samples. Times are Little's, by trial.
type gradient2 struct {
	limiter
	long float64 // seconds
}

const (
	gradientTolerance = 1.5
	gradientSmoothing = .2
	gradientQueue     = 4
	gradientWindow    = 600
)

func newGradient2(s Settings) Learner { return &gradient2{limiter: newLimiter(s, "gradient2")} }

func (g *gradient2) Tell(w Window) {
	short := g.hear(&w)
	if short == 0 {
		return
	}
	g.long = cmp.Or(g.long, short)
	g.long += (short - g.long) * 2 / (gradientWindow + 1)
	if g.long/short > 2 {
		g.long *= .95
	}
	if w.Inside.Known && w.Inside.Number < g.limit/2 {
		return // a limit that is not filled shows nothing
	}
	gradient := max(.5, min(1, gradientTolerance*g.long/short))
	g.set(g.limit*(1-gradientSmoothing) + gradientSmoothing*(g.limit*gradient+gradientQueue))
}
