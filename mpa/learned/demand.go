package learned

import (
	"cmp"
	"math"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
)

// A workload is the state of one by an observation.
type workload struct {
	known   bool
	missing string
	rate    float64 // 0 = not known
	cores   float64 // in use
	demand  float64 // in cores
	size    float64 // of a pod, in cores
	ready   float64 // pods
	// unit is u: the cores that one request of the promised percentile needs to be in time.
	unit float64
	// latency ÷ the promised one; 0 = unknown.
	latency float64
	// lost is the share of the requests asked for that are not answered.
	lost float64
	// age of the rate beyond usualAge, in seconds.
	age float64
	// fresh is the cores of the pods whose usage is of the same time as the throughput, per
	// pod, and their share of the running pods.
	fresh, share float64
}

const (
	answered = .95 // of the rate, from which on all requests count as answered
	busyFull = .85 // of the cpu, above which a backlog may hide in it
	// The cpu per request of an alarm, of three minutes, counts as this number of measurements.
	freshPrior = 12
	// Usage and rates count as of the same time within aligned, over windows of at most longest.
	aligned, longest = 15 * time.Second, 90 * time.Second
	// A rate that moved by less in the last minutes is the same for windows of different times.
	steadyRate = 1.25
	// usualAge of metrics; those that are older than stale make an agent unsure for a while.
	usualAge, stale, unsureSpan = 15 * time.Second, time.Minute, time.Hour
	// Shares of the largest demand of an hour and of the first size, while unsure.
	unsureHour, unsureFirst = .8, .7
	// refill is the time after a gap until rates are again those of a window alone.
	refill = 2 * time.Minute
)

// look identifies the workload.
func (a *Agent) look(o *mpa.Observation, requests []mpa.Resources) (w workload) {
	running, measured, fresh, recent := 0, 0, 0, 0
	for i := range o.Pods {
		p := &o.Pods[i]
		if p.Deleting || p.Phase != mpa.Running {
			continue
		}
		running++
		if p.Ready {
			w.ready++
		}
		known, cores, same, young := len(p.Containers) > 0, 0.0, true, true
		for j := range p.Containers {
			c := &p.Containers[j]
			known = known && c.Usage.Known(o.Time, maxAge)
			cores += float64(c.Usage.CPU) / 1000
			apart := c.Usage.Time.Sub(o.Throughput.Time)
			same = same && apart.Abs() <= aligned && c.Usage.Window <= longest
			young = young && c.Usage.Known(o.Time, stale)
		}
		if known {
			measured++
			w.cores += cores
			if same {
				fresh++
				w.fresh += cores
			}
			if young {
				recent++
			}
		}
	}
	if len(a.s.Recent) > 0 && (!o.Rate.Known(o.Time, stale) || 2*recent < running) {
		a.s.Unsure = o.Time
	}
	for _, r := range requests {
		w.size += float64(r.CPU) / 1000
	}
	if measured == 0 || w.size == 0 || o.Replicas == 0 {
		w.missing = "cpu usage is missing or stale"
		return w
	}
	w.known, w.ready = true, max(1, w.ready)
	w.cores *= float64(running) / float64(measured)
	if w.share = float64(fresh) / float64(running); fresh > 0 {
		w.fresh /= w.share
	}
	if o.Latency.Known(o.Time, maxAge) {
		w.latency = o.Latency.Value / a.target.SLO.Latency
	}
	w.demand = w.cores
	if o.Rate.Known(o.Time, maxAge) {
		w.rate = o.Rate.Value
		w.age = max(0, o.Time.Sub(o.Rate.Time)-usualAge).Seconds()
		a.identify(o, &w)
	}
	if cost := a.s.Cost; cost > 0 {
		if w.rate > 0 {
			w.demand = w.rate * cost
		}
		w.unit = cost * math.Log(100/(100-a.target.SLO.Percentile)) / a.target.SLO.Latency
	}
	return w
}

// identify learns the cpu of a request while all are answered in time, or while the pods
// have cpu to spare: work for clients that have given up is no demand, nor is a backlog.
func (a *Agent) identify(o *mpa.Observation, w *workload) {
	if !o.Throughput.Known(o.Time, maxAge) || w.rate == 0 {
		return
	}
	done := o.Throughput.Value
	w.lost = max(0, 1-done/w.rate)
	if done < answered*w.rate || done == 0 {
		return
	}
	if w.latency > 1 && w.cores > busyFull*w.size*w.ready {
		return
	}
	now, weight := w.cores/done, a.v[costNewest]
	switch {
	case a.s.Cost == 0 || a.steady(w.rate*a.s.Cost):
	case w.share > 0:
		now, weight = w.fresh/done, weight*w.share
	default:
		return
	}
	a.s.Cost = cmp.Or(a.s.Cost, now)
	if a.s.Fresh > 0 {
		// The mean of the measurements since the workload changed.
		a.s.Fresh++
		if mean := 1 / float64(a.s.Fresh); mean > weight {
			weight = mean
		} else {
			a.s.Fresh = 0
		}
	}
	a.s.Cost += weight * (now - a.s.Cost)
}

// steady reports whether demand moved little in the last minutes, up to the present one.
func (a *Agent) steady(now float64) bool {
	list := a.s.Recent
	if len(list) < 2 || list[len(list)-1].Time.Sub(list[0].Time) < recentSpan-time.Minute {
		return false
	}
	least, most := now, now
	for _, e := range list {
		least, most = min(least, e.Value), max(most, e.Value)
	}
	return most <= steadyRate*least
}

// unsure reports whether metrics have been missing or old in the last hour.
func (a *Agent) unsure(now time.Time) bool {
	return !a.s.Unsure.IsZero() && now.Sub(a.s.Unsure) < unsureSpan
}

// expected returns the largest demand expected in the next minutes, in cores, and its origin.
// It also records the demand to hold.
func (a *Agent) expected(now time.Time, w *workload) (cores float64, why string) {
	s, d := &a.s, w.demand
	for len(s.Recent) > 0 && now.Sub(s.Recent[0].Time) > recentSpan {
		s.Recent = s.Recent[1:]
	}
	s.Recent = append(s.Recent, sample{now, d})
	s.Ten.add(now, d, 10*time.Minute)
	s.Hour.add(now, d, time.Hour)
	usual := a.usual(now, d)
	cores, why = d, "asked for"
	take := func(v float64, text string) {
		if v > cores {
			cores, why = v, text
		}
	}
	if a.Ahead != nil && s.Cost > 0 {
		soon, later := a.Ahead(now)
		s.Held = maxima{{now, max(soon, later) * s.Cost}}
		return soon * s.Cost, "to come"
	}
	take(a.jump(now, d), "and rising fast")
	mean, deviation, slope := statistics(s.Recent)
	take(d+slope*(a.v[trendAhead]+w.age), "along the trend")
	take(a.v[recentShare]*s.Ten.most(), "as a share of 10 min")
	hour, first := a.v[hourShare], a.v[firstShare]
	if a.unsure(now) {
		hour, first = max(hour, unsureHour), max(first, unsureFirst)
	}
	take(hour*s.Hour.most(), "as a share of an hour")
	if now.Sub(s.Begun) < day {
		take(first*s.First, "as a share of what it began with")
	}
	take(mean+a.v[noiseDeviations]*deviation, "with the usual noise")
	take(a.v[usualShare]*usual, "usual within 10 min")
	if a.Forecast != nil && s.Cost > 0 {
		soon, later := a.Forecast(now)
		take(soon*s.Cost, "as a forecast says")
		if later > 0 {
			s.Held = maxima{{now, max(cores, later*s.Cost)}}
			return cores, why
		}
	}
	s.Held.add(now, cores, a.span(holdSeconds))
	return cores, why
}

// jump returns the demand at the end of the window of the rate, which a step enters bit by
// bit: the demand a window ago plus jumpGain times the last rise; 0 = no jump. After a gap
// there is none for a while: a rise in the gap arrives at once.
func (a *Agent) jump(now time.Time, d float64) float64 {
	list := a.s.Recent
	if len(list) < 2 {
		return 0
	}
	for i := len(list) - 1; i >= 0 && now.Sub(list[i].Time) < refill; i-- {
		before := a.s.Begun // where the samples before it are too old to be kept
		if i > 0 {
			before = list[i-1].Time
		}
		if list[i].Time.Sub(before) > time.Minute {
			return 0
		}
	}
	last := list[len(list)-2]
	old := last.Value
	for _, r := range list {
		if now.Sub(r.Time) <= time.Minute {
			old = min(old, r.Value)
			break
		}
	}
	rise := (d - last.Value) * min(1, 15/max(1, now.Sub(last.Time).Seconds()))
	if end := old + a.v[jumpGain]*rise; end > a.v[jumpFrom]*d {
		return end
	}
	return 0
}

// statistics returns mean and standard deviation, and the slope per second of the last four
// minutes where it explains more than twice the residual, else 0.
func statistics(list []sample) (mean, deviation, slope float64) {
	n := float64(len(list))
	var sum, squares float64
	for _, e := range list {
		sum += e.Value
		squares += e.Value * e.Value
	}
	mean = sum / n
	deviation = math.Sqrt(max(0, squares/n-mean*mean))
	last := list[len(list)-1].Time
	for len(list) > 0 && last.Sub(list[0].Time) > 4*time.Minute {
		list = list[1:]
	}
	if len(list) < 3 || last.Sub(list[0].Time) < 2*time.Minute {
		return mean, deviation, 0
	}
	n = float64(len(list))
	var t, v float64
	for _, e := range list {
		t -= last.Sub(e.Time).Seconds() / n
		v += e.Value / n
	}
	var tv, tt, vv float64
	for _, e := range list {
		x := -last.Sub(e.Time).Seconds() - t
		tv += x * (e.Value - v)
		tt += x * x
		vv += (e.Value - v) * (e.Value - v)
	}
	if explained := tv * tv / tt; explained > 2*(vv-explained) {
		slope = tv / tt
	}
	return mean, deviation, slope
}

const (
	slotSpan    = 5 * time.Minute
	slots       = int(day / slotSpan)
	usualNewest = .5 // weight of the newest day
)

// usual returns the usual demand of the next 10 min of the day, 0 = unknown, and learns from
// the present one.
func (a *Agent) usual(now time.Time, d float64) float64 {
	s := &a.s
	slot := slotOf(now)
	if slot != s.Slot && s.Slot >= 0 {
		if s.Usual == nil {
			s.Usual = map[int]float64{}
		}
		old, ok := s.Usual[s.Slot]
		if !ok {
			old = s.Seen
		}
		s.Usual[s.Slot] = old + usualNewest*(s.Seen-old)
		s.Seen = 0
	}
	s.Slot, s.Seen = slot, max(s.Seen, d)
	most := 0.0
	for i := range 3 {
		most = max(most, s.Usual[(slot+i)%slots])
	}
	return most
}

func slotOf(t time.Time) int { return int(t.Sub(t.Truncate(day)) / slotSpan) }
