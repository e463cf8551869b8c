package capacity

// A limiter sets the limit from one trial to the next and has no model. gradient2, vegas
// and aimd are limiters.
type limiter struct {
	settings Settings
	limit    float64
	rate     float64
	told     bool
	name     string
}

func newLimiter(s Settings, name string) limiter {
	return limiter{settings: s, limit: float64(s.Initial), name: name}
}

func (l *limiter) Next() int { return l.settings.down(max(1, l.limit)) }

func (l *limiter) Estimate() (Capacity, bool) {
	f := fit{noise: l.settings.noise()}
	return f.capacity(l.Next(), l.rate, 1, "where "+l.name+" stands"), l.told
}

// hear adds a trial and returns the mean time inside, in seconds; 0 = unknown.
func (l *limiter) hear(w *Window) (seconds float64) {
	l.told, l.rate = true, w.rate().Number
	if w.Limit.Number < float64(l.Next()) {
		l.limit = max(1, w.Limit.Number) // the guard held it
	}
	if l.rate == 0 {
		return 0
	}
	return w.population() / l.rate
}

func (l *limiter) set(limit float64) {
	l.limit = min(float64(l.settings.Max), max(float64(l.settings.Min), limit))
}
