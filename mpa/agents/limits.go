package agents

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/capacity"
	"github.com/sigma-scheduler/sigma/mpa/guard"
)

// A LimitSpec configures how the limit of requests at once in a pod is learned.
type LimitSpec struct {
	Learner     string  `json:"learner"`
	Min         int32   `json:"min"`
	Max         int32   `json:"max"`
	Initial     int32   `json:"initial"`
	MemoryShare float64 `json:"memoryShare,omitempty"` // of the memory limit; 0 = the guard's own
}

const (
	// limitBand is the least change of a limit, as a share of it; less is not worth an action.
	limitBand = .1
	// limitTrials is the number of windows at a new limit that are compared with the last one before.
	limitTrials = 3
	// limitFull is the share of the limit inside from which on the limit binds the answers.
	limitFull = .8
	// limitNoise of the throughput of a window, besides that of the number of answers.
	limitNoise = .03
	// limitFailing is the share of requests that fail from which on a window is worse.
	limitFailing = .02
	// limitBlamed is the share of requests that fail before a change of the limit from which
	// on further failures are not blamed on it.
	limitBlamed = .05
	// limitMoved is the factor of the demand from which on the workload counts as another
	// one, e^.4.
	limitMoved = 1.49
	// limitWorse is the number of worse limits that are remembered.
	limitWorse = 16
	// limitSeen is the longest time for the last pod to receive a new limit.
	limitSeen = 5 * time.Minute
	// limitKills is the time after a higher limit during which a kill takes it back.
	limitKills = 15 * time.Minute
	// limitLooks is the number of measurements before a first limit, and limitRoom the first
	// limit ÷ the largest number inside so far.
	limitLooks = 12
	limitRoom  = 1.5
)

// A WorseLimit is a limit at which pods did worse than at From, the one before. While a
// request takes Demand at From, no limit beyond From on that side is allowed.
type WorseLimit struct {
	Time   time.Time `json:"time"`
	From   int32     `json:"from"`
	Limit  int32     `json:"limit"`
	Demand float64   `json:"demand,omitempty"` // core-seconds a request; 0 = not known
	Failed bool      `json:"failed,omitempty"` // requests failed, perhaps by another cause
	Reason string    `json:"reason"`
}

// worseStill reports whether a limit still counts as worse. If requests failed there it is
// tried again after a wait that doubles with each failure.
func (l *Limits) worseStill(now time.Time, w *WorseLimit) bool {
	if !w.Failed {
		return true
	}
	last, times := w.Time, -1
	for _, k := range l.worse {
		if k.Failed && k.From == w.From && k.Limit == w.Limit {
			last, times = k.Time, times+1
		}
	}
	return now.Before(last.Add(min(blamedLongest, blamedAgain<<min(max(times, 0), 8))))
}

// A limitWindow holds the measurements of a pod in a window at a limit.
type limitWindow struct {
	Time    time.Time `json:"time"`
	Limit   int32     `json:"limit"`
	Rate    float64   `json:"rate"`    // answers a second
	Share   float64   `json:"share"`   // of Rate, half of its 95 % interval
	Failing float64   `json:"failing"` // share of the requests that failed
	Failed  float64   `json:"failed"`  // of all pods
	Full    bool      `json:"full"`
	Demand  float64   `json:"demand,omitempty"` // core-seconds a request; 0 = not known
}

// Limits learns the limit of a pod next to any agent. It takes back a limit at which pods do
// worse than before, and remembers it.
type Limits struct {
	capacity *Capacity
	last     limitWindow // of the active limit; zero = no window yet
	before   limitWindow // the last one at the limit before; zero = no comparison
	settled  limitWindow // before, once the comparison has ended: kills still count
	asked    int32       // the limit requested last
	askedAt  time.Time
	trials   int       // windows since the limit changed
	since    time.Time // when the change was requested or, if made by others, seen
	inside   float64   // the most requests in a pod while there was no limit
	looks    int       // number of measurements of inside
	worse    []WorseLimit
	bounded  bool        // the last recommended limit is below that of the pod's capacity,
	within   podCapacity // and the load that a pod serves with it
}

// NewLimits returns one without memory. Errors name the setting.
func NewLimits(t mpa.Target, spec LimitSpec) (*Limits, error) {
	t.Limit = mpa.Range{Min: spec.Min, Max: spec.Max}
	s := capacity.DefaultSettings()
	s.Min, s.Max, s.Initial, s.Share = int(spec.Min), int(spec.Max), int(spec.Initial), spec.MemoryShare
	c, err := NewCapacityBy(t, spec.Learner, s)
	if err != nil {
		return nil, err
	}
	return &Limits{capacity: c}, nil
}

// Known returns the knowledge of a pod; false = nothing yet. The rate is that of the last
// recommended limit if that is below PodLimit.
func (l *Limits) Known() (Known, bool) {
	k, ok := l.capacity.Known()
	if l.bounded {
		k.PodRate = l.within.Rate
	}
	return k, ok
}

// Worse returns the limits that were taken back, the oldest first.
func (l *Limits) Worse() []WorseLimit { return l.worse }

// Remember takes over limits that were taken back, from a process without a journal.
func (l *Limits) Remember(worse []WorseLimit) { l.worse = worse }

// Look takes an observation and returns the limit that the pods should have, and the replicas
// that the rate takes; 0 = no opinion.
func (l *Limits) Look(o *mpa.Observation) mpa.Recommendation {
	r := l.look(o)
	c, known := l.capacity.learner.Estimate()
	size, ok := l.capacity.size(o)
	if l.bounded = known && ok && l.capacity.pod.Rate > 0 && r.Limit > 0 && int(r.Limit) < l.capacity.pod.Limit; l.bounded {
		_ = l.capacity.replan(&l.within, &c, size, int(r.Limit)) // an error leaves no rate
	}
	return r
}

func (l *Limits) look(o *mpa.Observation) mpa.Recommendation {
	seen := l.capacity.last
	l.capacity.see(o)
	l.follow(o)
	if begun := l.capacity.pardoned; !begun.IsZero() {
		l.worse = slices.DeleteFunc(l.worse, func(w WorseLimit) bool { return w.Failed && !w.Time.Before(begun) })
		l.before, l.settled, l.capacity.pardoned = limitWindow{}, limitWindow{}, time.Time{}
	} else if l.capacity.excused() {
		if l.before.Limit != 0 { // windows cannot be compared
			l.before, l.settled = limitWindow{}, l.before
		}
	} else if w := l.capacity.last; w != nil && w != seen {
		l.judge(o, w)
	}
	r := l.capacity.say(o)
	if n := len(l.worse); r.Limit == 0 && n > 0 && l.worse[n-1].Limit == l.last.Limit {
		// If the active limit takes all pods down, no pod measures anything.
		r.Limit, r.Reason = l.worse[n-1].From, l.worse[n-1].Reason
		l.ask(o, r.Limit)
		return r
	}
	if r.Limit == 0 {
		return r
	}
	now, most := o.Gates.Limit, capacity.Most(l.capacity.learner)
	if now == 0 {
		return l.first(o, r)
	}
	back, beyond := false, false
	for _, w := range l.worse {
		if !l.worseStill(o.Time, &w) {
			continue
		}
		// The guard of memory takes precedence over all.
		if bound := int32(min(float64(w.From), most)); w.Limit > w.From && r.Limit > bound || w.Limit < w.From && r.Limit < bound {
			r.Limit, r.Reason, back = bound, fmt.Sprintf("%d requests at once, not %d: %s", bound, w.Limit, w.Reason), true
			beyond = beyond || w.Limit > w.From && now > bound || w.Limit < w.From && now < bound
		}
	}
	if b := l.before.Limit; b != 0 && now == l.last.Limit && float64(now) <= most && r.Limit != b && !beyond {
		r.Limit, r.Reason = now, fmt.Sprintf("%d requests at once are compared with %d before, %d of %d windows: %s", now, b, l.trials, limitTrials, r.Reason)
		return r
	}
	if small := math.Abs(float64(r.Limit-now)) < limitBand*float64(now); small && !back && float64(now) <= most && l.capacity.target.Limit.Clamp(now) == now {
		r.Limit = now
	}
	l.ask(o, r.Limit)
	return r
}

// ask records the requested limit, and the time since when it differs from the active one.
func (l *Limits) ask(o *mpa.Observation, limit int32) {
	if limit == o.Gates.Limit {
		return
	}
	if l.asked = limit; l.askedAt.IsZero() {
		l.askedAt = o.Time
	}
}

// first returns the limit of pods without one: limitRoom times the largest number inside so
// far, or that of r if larger. It has no opinion before limitLooks measurements.
func (l *Limits) first(o *mpa.Observation, r mpa.Recommendation) mpa.Recommendation {
	if pods := ready(o); pods > 0 {
		l.inside, l.looks = max(l.inside, o.Gates.Inside.Value/float64(pods)), l.looks+1
	}
	if l.looks < limitLooks {
		return noOpinion("capacity", "the gates have no limit: what is inside is measured first, %d of %d times", l.looks, limitLooks)
	}
	r.Limit = l.capacity.target.Limit.Clamp(max(r.Limit, int32(math.Ceil(limitRoom*l.inside))))
	r.Reason = fmt.Sprintf("a first limit of %d: up to %.3g requests were in a pod that had none", r.Limit, l.inside)
	l.ask(o, r.Limit)
	return r
}

// forget drops limits worse than the active one if the cpu of a request there has moved much:
// the workload is another one. It fills in a demand that was unknown then.
func (l *Limits) forget() {
	n := &l.last
	l.worse = slices.DeleteFunc(l.worse, func(w WorseLimit) bool {
		return w.From == n.Limit && w.Demand > 0 && n.Demand > 0 && max(n.Demand/w.Demand, w.Demand/n.Demand) > limitMoved
	})
	for i := range l.worse {
		if w := &l.worse[i]; w.From == n.Limit && w.Demand == 0 {
			w.Demand = n.Demand
		}
	}
}

// follow detects a change of the active limit, and pods that are killed for their memory
// after one that raised it.
func (l *Limits) follow(o *mpa.Observation) {
	now := o.Gates.Limit
	if now > 0 && now != l.last.Limit {
		l.before, l.settled, l.since = limitWindow{}, limitWindow{}, o.Time
		if now == l.asked {
			// The first pods may have had it since the request.
			l.before = l.last
			if earliest := o.Time.Add(-limitSeen); l.askedAt.After(earliest) {
				l.since = l.askedAt
			} else {
				l.since = earliest
			}
		}
		l.askedAt = time.Time{}
		l.last, l.trials = limitWindow{Limit: now}, 0
	}
	b := l.before
	if b.Limit == 0 && o.Time.Sub(l.since) <= limitKills {
		b = l.settled
	}
	if b.Limit == 0 || l.last.Limit < b.Limit {
		return
	}
	for i := range o.Pods {
		for _, c := range o.Pods[i].Containers {
			if c.Killed.After(l.since) && !c.Killed.After(o.Time) {
				l.before = b
				l.reject(o.Time, fmt.Sprintf("container %s of pod %s ran out of memory at %d", c.Name, o.Pods[i].Name, l.last.Limit))
				return
			}
		}
	}
}

// judge compares a window with the last one before the limit changed.
func (l *Limits) judge(o *mpa.Observation, w *capacity.Window) {
	if !w.Limit.Known || !w.Answered.Known || int32(w.Limit.Number) != o.Gates.Limit {
		return
	}
	pods := float64(l.capacity.pods)
	n := limitWindow{
		Time: w.Time, Limit: o.Gates.Limit, Rate: w.Answered.Number / w.Length.Number,
		Share:  1.96 * math.Sqrt(1/max(1, w.Answered.Number*pods)+limitNoise*limitNoise),
		Failed: w.Failed.Number * pods, Full: w.Inside.Known && w.Inside.Number >= limitFull*w.Limit.Number,
	}
	if all := w.Answered.Number + w.Failed.Number; all > 0 {
		n.Failing = w.Failed.Number / all
	}
	if w.CPU.Known && w.Answered.Number > 0 {
		n.Demand = w.CPU.Number / w.Answered.Number
	}
	l.last = n
	l.forget()
	b := l.before
	if b.Limit == 0 {
		return
	}
	switch l.trials++; {
	case n.Failing >= limitFailing && n.Failing > 2*b.Failing && n.Failed >= 5 && b.Failing < limitBlamed:
		l.reject(o.Time, fmt.Sprintf("at %d %.3g %% of the requests failed, at %d %.3g %%", n.Limit, 100*n.Failing, b.Limit, 100*b.Failing))
		l.worse[len(l.worse)-1].Failed = true
		if n.Limit < b.Limit && !killedSince(o, l.since) {
			// Too many inside are not the cause: the limit before is tried first.
			l.capacity.excuse(func(w *capacity.Window) bool {
				return w.Failing() && w.Limit.Number == float64(n.Limit) && w.Time.After(l.since)
			})
		}
	case n.Full && n.Rate*(1+n.Share) < b.Rate*(1-b.Share):
		l.reject(o.Time, fmt.Sprintf("at %d a pod that was full answered %.4g ± %.2g requests/s, at %d %.4g ± %.2g", n.Limit, n.Rate, n.Share*n.Rate, b.Limit, b.Rate, b.Share*b.Rate))
	case l.trials >= limitTrials:
		l.before, l.settled = limitWindow{}, b
	}
}

// reject remembers that the active limit is worse than the one before.
func (l *Limits) reject(now time.Time, why string) {
	w := WorseLimit{Time: now, From: l.before.Limit, Limit: l.last.Limit, Demand: l.before.Demand, Reason: why}
	if l.worse = append(l.worse, w); len(l.worse) > limitWorse {
		l.worse = l.worse[1:]
	}
	l.before, l.settled = limitWindow{}, limitWindow{}
}

// Shift implements [mpa.Shifter].
func (l *Limits) Shift(d time.Duration) {
	l.capacity.Shift(d)
	for _, t := range []*time.Time{&l.last.Time, &l.before.Time, &l.settled.Time, &l.since, &l.askedAt} {
		*t = guard.Moved(*t, d)
	}
}

type limitsJSON struct {
	Capacity *Capacity    `json:"capacity"`
	Last     limitWindow  `json:"last,omitzero"`
	Before   limitWindow  `json:"before,omitzero"`
	Settled  limitWindow  `json:"settled,omitzero"`
	Asked    int32        `json:"asked,omitempty"`
	AskedAt  time.Time    `json:"askedAt,omitzero"`
	Inside   float64      `json:"inside,omitempty"`
	Looks    int          `json:"looks,omitempty"`
	Trials   int          `json:"trials,omitempty"`
	Since    time.Time    `json:"since,omitzero"`
	Worse    []WorseLimit `json:"worse,omitempty"`
}

// MarshalJSON implements [mpa.Stateful].
func (l *Limits) MarshalJSON() ([]byte, error) {
	return json.Marshal(limitsJSON{l.capacity, l.last, l.before, l.settled, l.asked, l.askedAt, l.inside, l.looks, l.trials, l.since, l.worse})
}

// UnmarshalJSON implements [mpa.Stateful].
func (l *Limits) UnmarshalJSON(data []byte) error {
	j := limitsJSON{Capacity: l.capacity}
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	l.last, l.before, l.settled, l.asked, l.askedAt = j.Last, j.Before, j.Settled, j.Asked, j.AskedAt
	l.inside, l.looks, l.trials, l.since, l.worse = j.Inside, j.Looks, j.Trials, j.Since, j.Worse
	return nil
}

// Limited is an agent whose limit Limits decides.
type Limited struct {
	Agent  mpa.Agent
	Limits *Limits
	// Asks: the pods' limit may be changed; otherwise it is only learned.
	Asks bool
	said mpa.Recommendation
}

// Said returns the last recommendation of Limits.
func (a *Limited) Said() mpa.Recommendation { return a.said }

// Recommend implements [mpa.Agent].
func (a *Limited) Recommend(o *mpa.Observation) mpa.Recommendation {
	r := a.Agent.Recommend(o)
	a.said = a.Limits.Look(o)
	if r.Limit = 0; !a.Asks || a.said.Limit == 0 {
		return r
	}
	if c := a.Limits.capacity; o.Gates.Limit > 0 && len(c.windows) == 0 && c.other.Lost == 0 {
		return r // the present limit is measured first
	}
	if r.Limit = a.said.Limit; r.Limit != o.Gates.Limit && a.said.Reason != r.Reason {
		r.Reason = a.said.Reason + "; " + r.Reason
	}
	return r
}

// Shift implements [mpa.Shifter].
func (a *Limited) Shift(d time.Duration) {
	mpa.Shift(a.Agent, d)
	a.Limits.Shift(d)
}
