package explain

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/sigma-scheduler/sigma/internal/plural"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// mostGaps are printed one by one.
const mostGaps = 10

// Verdict prints the summary of a decision log whose decisions were computed again.
func Verdict(out io.Writer, name string, v *ledger.Verdict) {
	causes, width := slices.Sorted(maps.Keys(v.Causes)), 12
	for _, cause := range causes {
		width = max(width, len("  "+cause))
	}
	line := func(name, format string, args ...any) {
		fmt.Fprintf(out, "%-*s "+format+"\n", append([]any{width, name}, args...)...)
	}
	line("log", "%s", name)
	line("events", "%d", v.Events)
	line("starts", "%d", v.Starts)
	line("decisions", "%d", v.Decisions)
	for _, cause := range causes {
		line("  "+cause, "%d = %s", v.Causes[cause], percent(v.Causes[cause], v.Decisions))
	}
	asked := v.Causes[ledger.CausePolicy] + v.Causes[ledger.CauseNoWindow] + v.Causes[ledger.CausePlanned]
	switch {
	case v.First != nil:
		line("agreed", "%d of %d up to the first difference", v.Agreed, asked)
	case asked == 0:
		line("agreed", "0 of 0: no decision was a policy's")
	default:
		line("agreed", "%d of %d = %s", v.Agreed, asked, percent(v.Agreed, asked))
	}
	line("refused", "%s went where our own model does not allow", plural.Of(v.Refused, "pod"))
	line("cut off", "%s", plural.Of(v.CutOff, "line"))
	for i, g := range v.Gaps {
		if i == mostGaps {
			line("", "and %s more", plural.Of(len(v.Gaps)-i, "gap"))
			break
		}
		line("gap", "log begins again at seq %d (%s:%d), %s were not written, or their file is missing", g.Seq, g.File, g.Line, plural.Of(int(g.Lost), "event"))
	}
	if v.First == nil {
		return
	}
	d, in := v.First, ""
	if v.First.File != name {
		in = " of " + v.First.File
	}
	score := func(of *float64) string {
		if of == nil {
			return ""
		}
		return fmt.Sprintf("  score %v", *of)
	}
	fmt.Fprintln(out)
	line("line", "%d%s", d.Line, in)
	if d.Choice {
		line("choice", "of the policy's file")
	} else {
		line("pod", "%s, app %s", d.Pod, d.App)
	}
	line("in the log", "%s%s", d.Logged, score(d.LoggedComputed))
	if d.Choice {
		line("computed", "%s", d.Computed)
	} else if d.Computed != "" {
		line("computed", "%s%s", d.Computed, score(&d.ComputedScore))
	}
	line("because", "%s", d.Reason)
}

// percent is a share with two digits; only n = of gives 100 %.
func percent(n, of int) string {
	text := fmt.Sprintf("%.2f %%", 100*float64(n)/float64(of))
	switch {
	case n == of:
		return "100 %"
	case text == "100.00 %":
		return "99.99 %"
	}
	return text
}
