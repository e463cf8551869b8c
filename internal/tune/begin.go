package tune

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// A nothingError is the reason why nothing can be learned from a history.
type nothingError struct{ reason string }

func (n *nothingError) Error() string { return n.reason }

// begin cuts and divides the history, and refuses one from which nothing can be learned.
func (r *run) begin() error {
	if err := r.cut(); err != nil {
		return err
	}
	if reason := r.teachesNothing(); reason != "" {
		return &nothingError{reason}
	}
	if err := r.divide(); err != nil {
		return err
	}
	if zeros(r.traces) {
		r.note("the forecast is 0 for every app: no policy with a forecast (K1) is a candidate")
	}
	if r.cfg.Seeds == 0 {
		return nil
	}
	var err error
	r.searches, err = r.methods()
	r.of = r.cfg.Evaluations * r.cfg.Seeds * len(r.searches)
	return err
}

// cut takes the part of the history that Config selects.
func (r *run) cut() error {
	if len(r.traces) == 0 {
		return errors.New("there is no trace to learn from")
	}
	for _, t := range r.traces {
		if len(t.Requests) == 0 {
			return fmt.Errorf("trace %q: nothing arrives", t.Name)
		}
	}
	c := &r.cfg
	if c.From == 0 && c.Until == 0 {
		return nil
	}
	if len(r.traces) > 1 {
		return errors.New("from and until cut one history, not several")
	}
	t := r.traces[0]
	if len(t.Events) == 0 {
		return fmt.Errorf("trace %q is of one instant: from and until cut a history", t.Name)
	}
	first, last := t.Events[0].Time, t.Events[len(t.Events)-1].Time
	until := first + c.Until
	if c.Until == 0 {
		until = last + 1
	}
	if from := first + c.From; from >= min(until, last) {
		return fmt.Errorf("the history ends before it begins: from hour %.4g until hour %.4g of %.4g", c.From/hour, (until-first)/hour, (last-first)/hour)
	}
	r.traces = []*trace.Trace{t.Window(first+c.From, until, nil)}
	return nil
}

func (r *run) note(format string, args ...any) {
	r.out.Notes = append(r.out.Notes, fmt.Sprintf(format, args...))
}

// teachesNothing is the reason why every policy places alike; "" = they may differ.
func (r *run) teachesNothing() string {
	one, pinned := true, true
	for _, t := range r.traces {
		for _, q := range t.Requests {
			one = one && q.App == t.Requests[0].App
			pinned = pinned && choices(t.Instance, q.App) < 2
		}
	}
	switch {
	case pinned:
		return "each pod can go to one machine only: no policy changes anything"
	case one:
		return "the history has one app only: there is no mix to learn"
	}
	return ""
}

// choices is the number of machines that an app may use; unlimited ones count as two.
func choices(inst *binpack.Instance, app int32) int {
	n := 0
	a := &inst.Apps[app]
	for _, m := range inst.Machines {
		fits := a.Types == nil || slices.Contains(a.Types, m.Type)
		for d, need := range a.Demand {
			fits = fits && need <= m.Capacity[d]
		}
		switch {
		case !fits:
		case m.Count == binpack.Unlimited:
			n += 2
		default:
			n += m.Count
		}
	}
	return n
}

// hours names spans by hours since the first event of their trace.
func (r *run) hours(spans []span) string {
	var parts []string
	built := 0
	for _, s := range spans {
		if s.trace >= len(r.cfg.Traces) {
			built++
			continue
		}
		if s.whole {
			parts = append(parts, fmt.Sprintf("trace %d", s.trace+1))
			continue
		}
		text := ""
		start := r.traces[s.trace].Events[0].Time
		if len(r.cfg.Traces) > 1 {
			text = fmt.Sprintf("trace %d, ", s.trace+1)
		}
		parts = append(parts, text+fmt.Sprintf("hours %.3g to %.3g", (s.from-start)/hour, (s.until-start)/hour))
	}
	if built > 0 {
		parts = append(parts, fmt.Sprintf("%d built days", built))
	}
	return strings.Join(parts, ", ")
}
