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

// begin cuts and splits the history, and refuses one from which nothing can be learned.
func (r *run) begin() error {
	if err := r.cut(); err != nil {
		return err
	}
	if reason := r.teachesNothing(); reason != "" {
		return &nothingError{reason}
	}
	until, err := ends(r.traces)
	if err != nil {
		return err
	}
	if r.split, err = splitByTime(r.traces, until, r.cfg.Choose); err != nil {
		if short, ok := errors.AsType[*shortError](err); ok {
			return &nothingError{short.Error()}
		}
		return err
	}
	if reason := r.silentPart(); reason != "" && !fillUps(r.traces) {
		return &nothingError{reason}
	}
	if zeros(r.traces) {
		r.note("the forecast is 0 for every app: no policy with a forecast (K1) is trained")
	}
	list, again := methods(r.cfg.Target, r.traces), 2
	if r.cfg.Choose > 0 {
		again = 1
	}
	if slices.ContainsFunc(list, r.averages) {
		again *= r.cfg.Seeds
	}
	r.of = r.cfg.Evaluations * (r.cfg.Seeds*len(list) + again)
	return nil
}

// cut takes the part of the history that Config selects.
func (r *run) cut() error {
	for _, t := range r.traces {
		if len(t.Events) == 0 {
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
	case nothingLeaves(r.traces) && !fillUps(r.traces):
		return "the history only fills up: three traces in which nothing leaves are the least that can be learned from, chosen on and judged on"
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

// silentPart returns the name of the part that has no arrivals after its first instant.
func (r *run) silentPart() string {
	parts := []struct {
		name  string
		spans []span
	}{{"train on", r.split.train}, {"choose on", r.split.validate}, {"judge on", r.split.test}}
	for _, part := range parts {
		arrives := len(part.spans) == 0
		for _, w := range windows(r.traces, part.spans) {
			for _, e := range w.Events {
				arrives = arrives || e.Kind == trace.Create && e.Time > w.MeasureFrom-trace.Settling
			}
		}
		if !arrives {
			return fmt.Sprintf("nothing arrives in the part to %s (%s)", part.name, r.hours(part.spans))
		}
	}
	return ""
}

// hours names spans by hours since the first event of their trace.
func (r *run) hours(spans []span) string {
	var parts []string
	for _, s := range spans {
		if s.whole {
			parts = append(parts, fmt.Sprintf("trace %d", s.trace+1))
			continue
		}
		text := ""
		start := r.traces[s.trace].Events[0].Time
		if len(r.traces) > 1 {
			text = fmt.Sprintf("trace %d, ", s.trace+1)
		}
		parts = append(parts, text+fmt.Sprintf("hours %.3g to %.3g", (s.from-start)/hour, (s.until-start)/hour))
	}
	return strings.Join(parts, ", ")
}

// safe is the result where nothing can be learned.
func (r *run) safe(reason string) {
	r.out.Reason = reason
	r.out.Chosen = r.cfg.Target.safe()
	r.out.Against = r.out.Chosen
}
