package capacity

import (
	"fmt"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/internal/learn/drift"
)

// walk begins with the law's limit and corrects it by measurement: it tries the law's
// proposals until it is at the proposed limit, then a step up while the pod is not busy and a
// step down while the law does not hold. It freezes when no limit remains to try. A change of
// the demand or of the throughput opens it again, and at growing intervals it checks whether
// newer trials would have led elsewhere.
type walk struct {
	settings Settings
	trials   []Window // that did not fail, since the last drift
	limit    int      // its answer
	next     int
	reason   string
	frozen   bool
	since    int // trials since it froze
	look     int // number of trials after which it plans again
	proposed int // proposals of the law since it opened
	blocked  int // the guard allowed no limit above this; 0 = no such bound
	changed  bool
	model    fit // of the trials when it last planned
	demand   *drift.PageHinkley
	rate     *drift.PageHinkley
}

const (
	stepFactor = 1.5
	pays       = .03  // a step up has to gain this in log throughput
	costs      = .015 // a step down may cost this
	mostRounds = 8    // proposals of the law before it freezes
	retreat    = 2.5  // a limit that failed is divided by this: requests may have become larger
	mostPooled = 40   // trials that are kept
	busy       = .96  // of the quota: more inside cannot help
)

// A single value off by log .4, half again as much, is drift at the least noise; smaller
// ones add up.
var driftSettings = drift.Settings{Delta: 1.5, Lambda: 4.4, Reference: 8}

const driftDeviation = .4 / 5.9

func newWalk(s Settings) Learner {
	l := &walk{settings: s, limit: s.Initial, next: s.Initial}
	var err error
	if l.demand, err = drift.NewPageHinkley(driftSettings); err != nil {
		panic(err)
	}
	l.rate, _ = drift.NewPageHinkley(driftSettings)
	return l
}

func (l *walk) Next() int { return l.next }

func (l *walk) drifted() bool { return l.changed }

func (l *walk) Estimate() (Capacity, bool) {
	if len(l.trials) == 0 {
		return Capacity{}, false
	}
	f := &l.model
	rate, count := 0.0, 0
	for _, p := range l.points() {
		if p.limit == l.limit {
			rate, count = math.Exp(p.rate), p.trials
		}
	}
	if count == 0 && f.known {
		rate = f.Throughput(l.limit)
	}
	return f.capacity(l.limit, rate, count, l.reason), rate > 0
}

func (l *walk) Tell(w Window) {
	n := int(w.Limit.Number)
	l.changed = false
	if w.Failing() {
		l.fail(n)
		return
	}
	if w.Answered.Number == 0 {
		return
	}
	if l.next > n {
		l.blocked = n
	}
	if l.isDrift(&w) {
		l.changed = true
		*l = walk{settings: l.settings, changed: true, demand: l.demand, rate: l.rate, limit: n, next: n}
	}
	l.trials = append(l.trials, w)
	if len(l.trials) > mostPooled {
		l.trials = slices.Delete(l.trials, mostPooled/2, mostPooled/2+1)
	}
	if l.frozen {
		if l.since++; l.since < l.look {
			return
		}
		l.look *= 2
		l.proposed, l.blocked = 0, 0
	}
	l.plan()
}

// fail restarts far below a limit at which the pod failed.
func (l *walk) fail(n int) {
	fresh := walk{settings: l.settings, demand: l.demand, rate: l.rate, changed: false}
	fresh.next = fresh.settings.down(math.Ceil(float64(n) / retreat))
	fresh.limit = fresh.next
	fresh.reason = fmt.Sprintf("the pod failed at %d", n)
	*l = fresh
}

// isDrift compares a trial with those before it at the same limit.
func (l *walk) isDrift(w *Window) bool {
	var demand, rate []float64
	for i := range l.trials {
		t := &l.trials[i]
		if t.Limit.Number/w.Limit.Number > 1.2 || w.Limit.Number/t.Limit.Number > 1.2 {
			continue
		}
		if d := t.demand(); d.Known {
			demand = append(demand, math.Log(d.Number))
		}
		if t.saturated() && t.Limit == w.Limit {
			rate = append(rate, math.Log(t.rate().Number))
		}
	}
	found := false
	if d := w.demand(); d.Known && len(demand) > 0 {
		found = l.off(l.demand, math.Log(d.Number)-mean(demand), len(demand))
	}
	if r := w.rate(); w.saturated() && len(rate) > 0 {
		found = l.off(l.rate, math.Log(r.Number)-mean(rate), len(rate)) || found
	}
	return found
}

// off reports whether a detector finds drift. A walk that is not frozen sets the detector
// again each time, so that only a large change counts while the reference still moves.
func (l *walk) off(p *drift.PageHinkley, x float64, before int) bool {
	if !l.frozen || !p.Ready() {
		deviation := max(driftDeviation, l.model.noise*math.Sqrt(1+1/float64(before)))
		if err := p.Expect(0, deviation); err != nil {
			return false
		}
	}
	found, err := p.Observe(x)
	return err == nil && found != drift.None
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// A point has the trials at one limit.
type point struct {
	limit, trials int
	rate          float64 // mean log of answers a second
	busy          Value   // mean utilisation
}

func (l *walk) points() []point {
	var list []point
	for i := range l.trials {
		w := &l.trials[i]
		if !w.saturated() {
			continue // it shows the law's numbers, but not the throughput of the limit
		}
		n := int(w.Limit.Number)
		k := slices.IndexFunc(list, func(p point) bool { return p.limit == n })
		if k < 0 {
			list = append(list, point{limit: n})
			k = len(list) - 1
		}
		p := &list[k]
		share := 1 / float64(p.trials+1)
		p.trials++
		p.rate += (math.Log(w.rate().Number) - p.rate) * share
		if u := w.utilisation(); u.Known {
			p.busy = Some(p.busy.Number + (u.Number-p.busy.Number)*share)
		}
	}
	slices.SortFunc(list, func(a, b point) int { return a.limit - b.limit })
	return list
}

// beliefs returns the log throughput of the limits that were tried: the measured one combined
// with the law's, whose weight falls with its misfit.
func (l *walk) beliefs(f *fit, points []point) []float64 {
	list := make([]float64, len(points))
	misfit := 0.0
	for i := range points {
		list[i] = points[i].rate
		if f.known {
			off := points[i].rate - math.Log(f.Throughput(points[i].limit))
			misfit += off * off / float64(len(points))
		}
	}
	if !f.known {
		return list
	}
	law := max(.04, f.noise)*max(.04, f.noise) + 4*misfit
	for i := range points {
		m := f.noise * f.noise / float64(points[i].trials)
		list[i] = (list[i]/m + math.Log(f.Throughput(points[i].limit))/law) / (1/m + 1/law)
	}
	return list
}

// plan chooses the next limit.
func (l *walk) plan() {
	l.model = fitTrials(l.trials, l.settings.noise())
	f := &l.model
	points := l.points()
	if len(points) == 0 {
		l.settle(f, l.next)
		return
	}
	beliefs := l.beliefs(f, points)
	top := slices.Max(beliefs)
	best := slices.IndexFunc(beliefs, func(b float64) bool { return b >= top-costs })
	at := &points[best]
	if f.known && l.proposed < mostRounds {
		if n, ok := l.propose(f, points, at); ok {
			l.proposed++
			l.frozen = false
			l.limit, l.next = n, n
			l.reason = "the law: " + f.say()
			return
		}
	}
	l.limit = at.limit
	if n, ok := l.step(f, points, best); ok && !l.frozen {
		l.next = n
		l.reason = fmt.Sprintf("the best of %d limits so far; tries %d", len(points), n)
		return
	}
	l.settle(f, at.limit)
}

// settle freezes the walk.
func (l *walk) settle(f *fit, limit int) {
	if !l.frozen {
		l.frozen, l.since, l.look = true, 0, 8
		noise := max(driftDeviation, f.noise)
		_ = l.demand.Expect(0, noise) // both are numbers above 0
		_ = l.rate.Expect(0, noise)
	}
	l.limit, l.next = limit, limit
	l.reason = "frozen: " + f.say()
	if !f.known {
		l.reason = "frozen by its throughput: the cpu or its quota is not known"
	}
}

// propose returns the law's limit where it is worth a trial.
func (l *walk) propose(f *fit, points []point, at *point) (limit int, ok bool) {
	sure := f.Network
	if f.Contention == 0 && !l.frozen {
		sure.Wait = f.waitUp // a wait too large costs nothing where the top is flat
	}
	n, _ := sure.Peak(l.settings.Max, goodShare)
	n = l.settings.up(float64(n))
	if l.blocked > 0 && n > l.blocked && slices.ContainsFunc(points, func(p point) bool { return p.limit == l.blocked && p.trials > 1 }) {
		return 0, false
	}
	for _, p := range points {
		if math.Abs(math.Log(float64(n)/float64(p.limit))) >= .12 {
			continue
		}
		if !l.frozen || p.limit == at.limit || p.trials > 2 {
			return 0, false
		}
		n = p.limit // it was tried, but not often
	}
	gain := math.Log(sure.Throughput(n) / sure.Throughput(at.limit))
	if n > at.limit && at.busy.Known && at.busy.Number >= busy && f.Contention == 0 {
		return 0, false
	}
	if l.frozen {
		return n, gain > pays || float64(n) < .8*float64(at.limit) && gain > -costs
	}
	return n, gain > costs || n < at.limit && gain > -costs
}

// step returns a limit next to the best one if it may be better.
func (l *walk) step(f *fit, points []point, best int) (limit int, ok bool) {
	at := &points[best]
	if up := l.settings.up(float64(at.limit) * stepFactor); up > at.limit && (l.blocked == 0 || at.limit < l.blocked) && !(at.busy.Known && at.busy.Number >= busy) {
		if n, ok := l.undecided(f, points, at, up, pays); ok {
			return n, true
		}
	}
	if down := l.settings.down(float64(at.limit) / stepFactor); down < at.limit && l.doubtful(f, points, best, down) {
		if n, ok := l.undecided(f, points, at, down, -costs); ok {
			return n, true
		}
	}
	return 0, false
}

// doubtful reports whether a limit below the best one may be better than by the law. The cpu
// that a busy pod spends on contention shows only below it.
func (l *walk) doubtful(f *fit, points []point, best, down int) bool {
	if !f.known || f.Contention > 0 {
		return true
	}
	at := &points[best]
	lost := math.Log(f.Throughput(at.limit) / f.Throughput(down))
	return best == 0 && at.busy.Known && at.busy.Number >= busy && lost < 2*pays ||
		best > 0 && points[best-1].trials < 3 && points[best-1].limit >= down && lost < 2*pays
}

// undecided returns which of two limits to try where it is open whether the other one
// gains as much as it should.
func (l *walk) undecided(f *fit, points []point, at *point, other int, threshold float64) (limit int, ok bool) {
	k := -1
	for i, p := range points {
		if p.limit != at.limit && (p.limit > at.limit) == (other > at.limit) && math.Abs(math.Log(float64(p.limit)/float64(other))) < .2 {
			k = i
		}
	}
	if k < 0 {
		return other, true
	}
	o := &points[k]
	gain := o.rate - at.rate
	e := f.noise * math.Sqrt(1/float64(o.trials)+1/float64(at.trials))
	if math.Abs(gain-threshold) > e || o.trials >= 3 && at.trials >= 3 {
		return 0, false
	}
	if o.trials < at.trials {
		return o.limit, true
	}
	return at.limit, true
}
