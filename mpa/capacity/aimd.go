package capacity

// aimd is additive increase, multiplicative decrease (Chiu, Jain, 1989) as Netflix's
// AIMDLimit has it: one more while half of the limit is used, nine tenths of it after
// failures.
type aimd struct{ limiter }

const aimdBackoff = .9

func newAIMD(s Settings) Learner { return &aimd{newLimiter(s, "aimd")} }

func (a *aimd) Tell(w Window) {
	a.hear(&w)
	switch {
	case w.Failing():
		a.set(a.limit * aimdBackoff)
	case !w.Inside.Known || 2*w.Inside.Number >= a.limit:
		a.set(a.limit + 1)
	}
}
