package record

import (
	"math"
	"slices"
	"time"
)

// Seen summarises decisions.
type Seen struct {
	At        time.Time // of the newest; zero = there are no decisions
	Decisions int
	Fallbacks int       // decisions that Best-Fit had to take
	Waited    []float64 // seconds, ascending: of the pods decided on, and of those that wait at the end
	// Compared is the number of decisions within the last day that were compared with Best-Fit; Opened is how
	// many of them took an empty node, BestFit how many Best-Fit's would have.
	Compared, Opened, BestFit int
}

// P99 is the 99th percentile of the waits in seconds; NaN = nobody waited.
func (s *Seen) P99() float64 {
	if len(s.Waited) == 0 {
		return math.NaN()
	}
	return s.Waited[int(math.Ceil(.99*float64(len(s.Waited))))-1]
}

// Seen summarises the decisions from a time on, at most [Back] before the newest event, that the policy of a
// digest ranked; "" = all. Opened nodes count as far back as [Open].
func (l *Log) Seen(since time.Time, digest string) (s Seen) {
	begin := float64(since.UnixMilli()) / 1e3
	for i := range l.decisions {
		d := &l.decisions[i]
		if d.at < max(begin, l.last-Open.Seconds()) || digest != "" && d.digest != digest {
			continue
		}
		if d.compared {
			s.Compared, s.Opened, s.BestFit = s.Compared+1, s.Opened+one(d.opened), s.BestFit+one(d.bestFit)
		}
		if d.at < l.last-Back.Seconds() {
			continue
		}
		s.At, s.Decisions, s.Fallbacks = moment(d.at), s.Decisions+1, s.Fallbacks+one(d.fallback)
		s.Waited = append(s.Waited, d.waited)
	}
	for _, w := range l.waiting {
		s.Waited = append(s.Waited, l.last-w.since)
	}
	slices.Sort(s.Waited)
	return s
}

// Waiting has the waits of the pods that wait for a node at a time, in seconds since they arrived. Those that
// arrived before since are left out.
func (l *Log) Waiting(since, now time.Time) (s Seen) {
	for _, w := range l.waiting {
		if w.since >= seconds(since) {
			s.Waited = append(s.Waited, max(0, seconds(now)-w.since))
		}
	}
	slices.Sort(s.Waited)
	return s
}
