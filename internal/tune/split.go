package tune

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

const (
	hour = 3600.
	day  = 24 * hour
	// manyDays is from how many days on a block is a day.
	manyDays   = 10
	shortBlock = 4 * hour
	fewest     = 3 // blocks, to train, validate and test
)

// A span is a stretch of one trace: its blocks follow one another.
type span struct {
	trace       int
	from, until float64
	marks       []float64 // ends of the blocks, the last is until
	whole       bool      // the trace is one block (see [fillUps])
}

// A split is a history cut by time.
type split struct {
	all, train, validate, test []span
	before                     []span  // train and validate
	unit                       float64 // seconds of a block; 0 = each trace is one
}

// A shortError is returned for a history with too few blocks.
type shortError struct {
	hours  float64
	blocks int
}

func (e *shortError) Error() string {
	return fmt.Sprintf("the history has %.3g hours, of which %d blocks of four hours can be made; three blocks are the least that can be learned from, chosen on and judged on", e.hours, e.blocks)
}

// fillUps reports a history of traces in which nothing leaves: clusters that only fill up.
// Their need at the end counts, not that of single hours, so each trace is a block.
func fillUps(traces []*trace.Trace) bool { return len(traces) >= fewest && nothingLeaves(traces) }

func nothingLeaves(traces []*trace.Trace) bool {
	return !slices.ContainsFunc(traces, func(t *trace.Trace) bool {
		return slices.ContainsFunc(t.Events, func(e trace.Event) bool { return e.Kind == trace.Delete })
	})
}

// splitByTime cuts traces into blocks and shares them out: with ten days or more the blocks are
// days, of which 60 % train, 20 % validate and 20 % test; else blocks of four hours or traces (see
// [fillUps]), of which a third trains, a sixth validates and half tests. With choose above 0 the
// blocks of the last choose seconds validate, and no block tests.
func splitByTime(traces []*trace.Trace, until []float64, choose float64) (split, error) {
	days := 0
	for i, t := range traces {
		days += blocks(t, until[i], day)
	}
	s := split{unit: shortBlock}
	whole := fillUps(traces)
	switch {
	case whole:
		s.unit = 0
	case days >= manyDays:
		s.unit = day
	}
	type block struct {
		trace       int
		from, until float64
	}
	var all []block
	for i, t := range traces {
		start := t.Events[0].Time
		if whole {
			all = append(all, block{i, start, until[i]})
			continue
		}
		n := blocks(t, until[i], s.unit)
		for b := range n {
			from := start + float64(b)*s.unit
			end := from + s.unit
			if b == n-1 {
				end = until[i]
			}
			all = append(all, block{i, from, end})
		}
	}
	n := len(all)
	if n < fewest {
		length := 0.0
		for i, t := range traces {
			length += until[i] - t.Events[0].Time
		}
		return split{}, &shortError{length / hour, n}
	}
	testing, validating := n/2, max(1, (n+3)/6)
	if s.unit == day {
		testing, validating = max(1, n/5), max(1, n/5)
	}
	if choose > 0 {
		testing, validating = 0, max(1, min(n-1, int(choose/max(s.unit, 1)+slack)))
	}
	stretch := func(blocks []block) []span {
		var out []span
		for _, b := range blocks {
			if k := len(out); k == 0 || out[k-1].trace != b.trace {
				out = append(out, span{trace: b.trace, from: b.from, whole: whole})
			}
			last := &out[len(out)-1]
			last.until, last.marks = b.until, append(last.marks, b.until)
		}
		return out
	}
	at := n - testing - validating
	s.all, s.train, s.validate, s.test = stretch(all), stretch(all[:at]), stretch(all[at:at+validating]), stretch(all[at+validating:])
	s.before = stretch(all[:at+validating])
	return s, nil
}

// slack is the share of a block that the last one may lack.
const slack = .05

// blocks is the number of blocks of a length in a trace.
func blocks(t *trace.Trace, until, unit float64) int {
	return int((until-t.Events[0].Time)/unit + slack)
}

// ends are the times at which the histories end.
func ends(traces []*trace.Trace) ([]float64, error) {
	var list []float64
	for _, t := range traces {
		if len(t.Events) == 0 {
			return nil, fmt.Errorf("trace %q: nothing arrives", t.Name)
		}
		// Just after the last event, which the last block holds.
		list = append(list, t.Events[len(t.Events)-1].Time+1e-3)
	}
	if len(list) == 0 {
		return nil, errors.New("there is no trace to learn from")
	}
	return list, nil
}

// windows are the traces of some spans.
func windows(traces []*trace.Trace, spans []span) []*trace.Trace {
	var list []*trace.Trace
	for _, s := range spans {
		list = append(list, traces[s.trace].Window(s.from, s.until, nil))
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

// ledIn are windows that begin before their span, at most a day and in each order a forty-eighth of that later (where there
// are four), and are measured from the span's beginning. The placement of the items of one instant is alike under all
// policies: they differ after hours of arrivals and departures. A fill-up stays as it is.
func ledIn(traces []*trace.Trace, spans []span, seed uint64, order, orders int) []*trace.Trace {
	var list []*trace.Trace
	for _, s := range spans {
		t := traces[s.trace]
		if s.whole {
			list = append(list, t)
			continue
		}
		lead := min(day, s.from-t.Events[0].Time) * (1 - float64(order)/float64(12*orders))
		w := t.Window(s.from-lead, s.until, shuffle(seed, order))
		w.MeasureFrom = max(w.MeasureFrom, s.from)
		list = append(list, w)
	}
	return list
}
