package records

import "fmt"

// A Line is one figure beside its peers and its targets.
type Line struct {
	Work   string // instances, knowledge, policy
	Figure string // what is measured, with its unit
	Value  float64
	Format string // of value, must and aim; "" = %.2f
	SE     float64
	Peers  string // the same figure of others, from the same run
	Must   Target
	Aim    Target
}

// A Target is a limit that a value keeps; the zero Target asks nothing.
type Target struct {
	limit float64
	kind  byte // '<' at most, '>' at least, 0 none
}

// AtMost is reached by values up to the limit.
func AtMost(limit float64) Target { return Target{limit, '<'} }

// AtLeast is reached by values from the limit on.
func AtLeast(limit float64) Target { return Target{limit, '>'} }

// Set reports whether the target asks for anything.
func (t Target) Set() bool { return t.kind != 0 }

// Reached reports whether a value keeps the target.
func (t Target) Reached(v float64) bool {
	return t.kind == 0 || t.kind == '<' && v <= t.limit || t.kind == '>' && v >= t.limit
}

func (t Target) text(format string) string {
	switch t.kind {
	case '<':
		return "≤ " + fmt.Sprintf(format, t.limit)
	case '>':
		return "≥ " + fmt.Sprintf(format, t.limit)
	}
	return ""
}

// The last column of a table of lines.
const (
	missed    = "**missed**"
	reachMust = "must"
	reachAim  = "aim"
	notTheAim = "not the aim"
)

// verdict is the best target that a line reaches.
func (l *Line) verdict() string {
	switch {
	case !l.Must.Set() && !l.Aim.Set():
		return ""
	case !l.Must.Reached(l.Value):
		return missed
	case l.Aim.Set() && l.Aim.Reached(l.Value):
		return reachAim
	case !l.Must.Set():
		return notTheAim
	}
	return reachMust
}

// LineTable starts a table of lines.
func LineTable() Table {
	return Table{Heads: []string{"work", "figure", "Sigma", "peers", "must", "aim", "reached"}, Right: []int{2, 4, 5}}
}

// Row is the line's row in a [LineTable].
func (l *Line) Row() []string {
	format := l.Format
	if format == "" {
		format = "%.2f"
	}
	value := fmt.Sprintf(format, l.Value)
	if l.SE > 0 {
		value += " ± " + fmt.Sprintf("%.2g", l.SE)
	}
	return []string{l.Work, l.Figure, value, l.Peers, l.Must.text(format), l.Aim.text(format), l.verdict()}
}
