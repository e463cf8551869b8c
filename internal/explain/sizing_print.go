package explain

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sigma-scheduler/sigma/internal/plural"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/journal"
)

// String returns a state in a few words.
func (s *sizingState) String() string {
	var parts []string
	if s.Replicas != 0 {
		parts = append(parts, plural.Of(int(s.Replicas), "replica"))
	}
	if s.Limit != 0 {
		parts = append(parts, fmt.Sprintf("%d requests at once", s.Limit))
	}
	for _, k := range s.Containers {
		var amounts []string
		if k.CPU != 0 {
			amounts = append(amounts, fmt.Sprintf("%dm", k.CPU))
		}
		if k.Memory != 0 {
			amounts = append(amounts, fmt.Sprintf("%d MiB", k.Memory>>20))
		}
		parts = append(parts, k.Name+" "+strings.Join(amounts, ", "))
	}
	if len(parts) == 0 {
		return "nothing in particular"
	}
	return strings.Join(parts, "; ")
}

// Print writes the explanation for people.
func (e *Sizing) Print(w io.Writer) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-10s "+format+"\n", append([]any{name}, args...)...)
	}
	at := ""
	if !e.Time.IsZero() {
		at = e.Time.UTC().Format(" at " + time.DateTime + " MST")
	}
	line("workload", "%s%s (%s)", e.Object, at, e.From)
	line("observed", "%s, %d ready", plural.Of(int(e.Observed.Replicas), "replica"), e.Observed.Ready)
	for _, k := range e.Observed.Containers {
		if k.Pods == 0 {
			line("", "%s: no usage", k.Name)
			continue
		}
		line("", "%s: cpu %dm of %dm%s, memory %d of %d MiB%s; mean of %s, %.3g s old", k.Name,
			k.Use.CPU, k.Request.CPU, share(k.Use.CPU, k.Request.CPU), k.Use.Memory>>20, k.Request.Memory>>20, share(k.Use.Memory, k.Request.Memory),
			plural.Of(k.Pods, "pod"), k.AgeSeconds)
	}
	if v := e.Observed.Rate; v != nil {
		line("", "%.4g requests/s", *v)
	}
	if v := e.Observed.Throughput; v != nil {
		line("", "%.4g answers/s", *v)
	}
	if v := e.Observed.Latency; v != nil {
		promise := ""
		if e.Observed.Promised > 0 {
			promise = fmt.Sprintf("; %.4g ms are promised", 1000*e.Observed.Promised)
		}
		line("", "latency %.4g ms at the %g %% percentile%s", 1000**v, e.Observed.Percentile, promise)
	}
	agent := e.Agent
	if e.Source != "" && e.Source != e.Agent {
		agent += ", by " + e.Source
	}
	switch {
	case e.Recommended != nil:
		line("agent", "%s: %s", agent, e.Recommended)
		line("because", "%s", e.Because)
	default:
		line("agent", "%s", agent)
	}
	e.Learning.print(line)
	if e.Wanted != nil {
		line("wanted", "%s", e.Wanted)
	}
	for i, g := range e.Guards {
		line([]string{"guards", ""}[min(i, 1)], "%s", g)
	}
	switch {
	case e.To != nil:
		line("done", "%s: %s", e.Action, e.To)
		if e.Recommended == nil {
			line("because", "%s", e.Reason)
		}
	default:
		line("held", "%s", e.Reason)
	}
	if e.Last != nil {
		line("before", "%s at %s: %s", e.Last.To, e.Last.Time.UTC().Format(time.DateTime), e.Last.Reason)
	}
	for _, o := range e.Outcomes {
		text := fmt.Sprintf("%s after %v", o.Result, o.Time.Sub(o.Decided).Round(time.Millisecond))
		line("outcome", "%s", strings.Join(append([]string{text}, noEmpty(o.Reason)...), ": "))
	}
	if len(e.Outcomes) == 0 && cmp.Or(e.To, toOf(e.Last)) != nil {
		line("outcome", "none yet")
	}
	for i, c := range e.Conditions {
		line([]string{"conditions", ""}[min(i, 1)], "%s", c)
	}
}

func toOf(c *sizingChange) *sizingState {
	if c == nil {
		return nil
	}
	return c.To
}

func noEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// share formats a part in whole percent, in brackets; empty if the whole is 0.
func share(part, whole int64) string {
	if whole == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d %%)", part*100/whole)
}

// SizingVerdict writes the result of replaying a journal.
func SizingVerdict(out io.Writer, v *journal.Verdict) {
	if v.First != nil {
		fmt.Fprintf(out, "%s: %s, %d equal up to line %d, which differs\n", v.Name, plural.Of(v.Decisions, "decision"), v.Equal, v.First.Line)
	} else {
		fmt.Fprintf(out, "%s: %s, %d equal\n", v.Name, plural.Of(v.Decisions, "decision"), v.Equal)
	}
	if v.Recorded > 0 {
		fmt.Fprintf(out, "  %d by an agent that this program does not know: its recommendations are the journal's\n", v.Recorded)
	}
	if v.CutOff {
		fmt.Fprintln(out, "  the last line is cut off and was left out")
	}
	if d := v.First; d != nil {
		for _, side := range []struct {
			name string
			mpa.Decision
		}{{"in the journal", d.Logged}, {"computed", d.Computed}} {
			fmt.Fprintf(out, "  %-14s ", side.name)
			e := json.NewEncoder(out)
			e.SetEscapeHTML(false)
			if err := e.Encode(side.Decision); err != nil {
				fmt.Fprintln(out, err)
			}
		}
	}
}
