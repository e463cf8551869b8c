package tune

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/cerebro/sized"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

const (
	hour   = 3600.
	day    = 24 * hour
	fewest = 3 // fill-ups, to train, validate and test
	// builtToTrain days are built where all recorded ones choose and judge, and builtForAll where no
	// whole day is recorded.
	builtToTrain, builtForAll = 3, 16
)

// A span is a stretch of one trace: its days follow one another.
type span struct {
	trace       int
	from, until float64
	marks       []float64 // ends of the days, the last is until
	whole       bool      // the trace is a fill-up (see [fillUps])
}

// A split is a history cut by time.
type split struct{ train, validate, test []span }

// fillUps reports a history of traces in which nothing leaves: clusters that only fill up.
// Their need at the end counts, not that of single hours, so each trace counts as a day.
func fillUps(traces []*trace.Trace) bool {
	return len(traces) >= fewest && !slices.ContainsFunc(traces, leaves)
}

// leaves reports whether an item of a trace leaves.
func leaves(t *trace.Trace) bool {
	return slices.ContainsFunc(t.Events, func(e trace.Event) bool { return e.Kind == trace.Delete })
}

// divide cuts the history into whole days and shares them out: half of them train, and the last fifth
// tests. Of two days the first chooses, the second tests; a single day does both, in other draws; then
// the part that chooses also trains, in other draws, next to built days. Without a whole day in which
// something leaves all days are built. With [Config.Choose] the last days choose, and none tests.
func (r *run) divide() error {
	days, err := r.days()
	if err != nil {
		return err
	}
	if len(days) == 0 {
		if slices.ContainsFunc(r.traces, sized.BySize) {
			return &nothingError{"no whole day is recorded, and only recorded use shows the risk of nodes above capacity"}
		}
		days = r.build(builtForAll)
	}
	n := len(days)
	testing := max(1, n/5)
	training := min(n/2, n-testing-1)
	if choose := int(r.cfg.Choose/day + slack); r.cfg.Choose > 0 {
		testing, training = 0, max(0, n-max(1, choose))
	}
	s := &r.split
	s.train, s.validate, s.test = stretch(days[:max(0, training)]), stretch(days[max(0, training):max(1, n-testing)]), stretch(days[n-testing:])
	switch {
	case r.cfg.Seeds == 0:
		s.train = nil
	case len(s.train) == 0:
		s.train = slices.Concat(s.validate, r.build(builtToTrain))
	}
	return nil
}

// again reports a history whose one day chooses and judges.
func (r *run) again() bool { return sameDay(r.split.test, r.split.validate) }

// sameDay reports whether a part begins with the day with which another begins.
func sameDay(a, b []span) bool {
	return len(a) > 0 && a[0].from == b[0].from && a[0].trace == b[0].trace
}

// days are the whole days of the traces, each of a trace's last with the rest that is no day. Either every
// trace has one, or a single trace has none.
func (r *run) days() (list []span, err error) {
	whole := fillUps(r.traces)
	none := -1
	for i, t := range r.traces {
		if len(t.Events) == 0 {
			none = i
			continue
		}
		// Just after the last event, which the last day holds.
		start, end := t.Events[0].Time, t.Events[len(t.Events)-1].Time+1e-3
		if whole {
			list = append(list, span{trace: i, from: start, until: end, marks: []float64{end}, whole: true})
			continue
		}
		n := int((end-start)/day + slack)
		if !leaves(t) {
			n = 0
		}
		if n == 0 {
			none = i
		}
		for d := range n {
			from := start + float64(d)*day
			until := from + day
			if d == n-1 {
				until = end
			}
			list = append(list, span{trace: i, from: from, until: until, marks: []float64{until}})
		}
	}
	if none >= 0 && len(r.traces) > 1 {
		return nil, fmt.Errorf("trace %q holds no whole day in which pods leave: leave it out, or give it alone, and days are built from its pods", r.traces[none].Name)
	}
	return list, nil
}

// slack is the share of a day that the last one may lack.
const slack = .05

// build appends days to the traces that are built from the workloads of the last one, each with a built
// day before it.
func (r *run) build(n int) (list []span) {
	last := r.traces[len(r.traces)-1]
	for i := range n {
		list = append(list, span{trace: len(r.traces), from: day, until: 2 * day, marks: []float64{2 * day}})
		r.traces = append(r.traces, generate.Days(last, r.cfg.Seed+uint64(i), 2))
	}
	return list
}

// stretch joins days that follow one another.
func stretch(days []span) (list []span) {
	for _, d := range days {
		if k := len(list) - 1; k >= 0 && list[k].trace == d.trace {
			list[k].until, list[k].marks = d.until, append(list[k].marks, d.until)
			continue
		}
		list = append(list, d)
	}
	return list
}

// shuffle draws the order of a first instant; nil = the order of arrival.
func shuffle(seed uint64, order int) *rand.Rand {
	if order == 0 {
		return nil
	}
	return rand.New(rand.NewPCG(seed, uint64(order)))
}

// ledIn are windows that begin a day before their span, in each order a forty-eighth of that later (where there are
// four), and are measured from the span's beginning. The placement of the items of one instant is alike under all
// policies: they differ by the gaps that a day of arrivals and departures leaves. A span that begins its history is led
// in by a copy of itself (see [ledByItself]). A fill-up stays as it is.
func ledIn(traces []*trace.Trace, spans []span, seed uint64, order, orders int) []*trace.Trace {
	var list []*trace.Trace
	for _, s := range spans {
		t := traces[s.trace]
		if s.whole {
			list = append(list, t)
			continue
		}
		lead := min(day, s.from-t.Events[0].Time)
		if lead == 0 {
			list = append(list, ledByItself(t, s.from, s.until, rand.New(rand.NewPCG(seed, uint64(order)))))
			continue
		}
		w := t.Window(s.from-lead+day*float64(order)/float64(12*orders), s.until, shuffle(seed, order))
		w.MeasureFrom = max(w.MeasureFrom, s.from)
		list = append(list, w)
	}
	return list
}
