package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// A card has the three figures of a policy that fit on a narrow screen.
type card struct {
	Name, About string
	Strong      bool
	Figures     []sheet.Definition
}

// cards are those of all policies, in the order of the first table.
func cards(list []Comparison) (out []card) {
	figure := func(term, text string) sheet.Definition { return sheet.Definition{Term: term, Text: text} }
	percent := func(v float64) string {
		if math.IsNaN(v) {
			return "–"
		}
		return strings.Replace(sheet.Figure(100*v, 1, false), "-", "−", 1) + " %"
	}
	if len(list) == 1 {
		c := &list[0]
		for _, o := range c.outcomes() {
			k := card{Name: shortName(o.result.Policy), About: o.result.Policy, Strong: learned(o.result)}
			need := figure("machines", sheet.Short(o.machines.mean))
			if c.Trace.Mixed {
				need = figure("cost", sheet.Short(o.cost))
			}
			second := figure("above the bound", percent(o.gap))
			if c.Trace.Retry {
				second = figure("wait s, mean", sheet.Short(o.waiting))
			}
			k.Figures = append(k.Figures, need, second)
			switch s := o.result.Saving; {
			case o.unplaced > 0:
				k.Figures = append(k.Figures, figure("items left out", sheet.Short(o.unplaced)))
			case s.Percent != nil:
				k.Figures = append(k.Figures, figure("saved against "+shortName(s.Against), percent(s.Percent.Mean/100)))
			default:
				k.Figures = append(k.Figures, figure("", ""))
			}
			out = append(out, k)
		}
		return out
	}
	subject, free, _ := contenders(list)
	for _, row := range Aggregate(list) {
		like := &Result{Policy: row.Policy, Knowledge: row.Knowledge, Exposure: row.Exposure}
		k := card{Name: shortName(row.Policy), About: row.Policy, Strong: learned(like)}
		k.Figures = []sheet.Definition{figure("machines, mean", sheet.Short(row.Machines.Mean)), figure("above the bound", percent(row.Gap.Mean)), figure("", "")}
		if list[0].Trace.Retry {
			k.Figures[1] = figure("wait s, mean", sheet.Short(row.Waiting.Mean))
		}
		if i := (*Interval)(nil); free != nil && subject != nil && row.Policy != free.Policy {
			if i = savingPercent(list, row.Policy, free.Policy); i != nil {
				k.Figures[2] = figure("saved against "+shortName(free.Policy), percent(i.Mean/100))
			}
		}
		out = append(out, k)
	}
	return out
}

// shortNames are the names of a table's rows without folders and endings, where that leaves them apart.
func shortNames(g grid) []string {
	if len(g.columns) == 0 {
		return nil
	}
	full := g.columns[0].cells
	short, count := make([]string, len(full)), map[string]int{}
	for i, name := range full {
		short[i] = shortName(name)
	}
	for i := range full {
		if !slices.Contains(full[:i], full[i]) {
			count[short[i]]++
		}
	}
	for i := range short {
		if count[short[i]] > 1 {
			short[i] = full[i]
		}
	}
	return short
}

// bySaving sorts traces by the saving of the verdict's subject there, the largest first.
func bySaving(list []Comparison) []Comparison {
	subject, free, _ := contenders(list)
	if subject == nil || free == nil || len(list) < 2 {
		return list
	}
	saved := map[string]float64{}
	for i := range list {
		p := savingPercent(list[i:i+1], subject.Policy, free.Policy)
		if p == nil {
			return list
		}
		saved[list[i].Trace.Name] = p.Mean
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b Comparison) int { return cmp.Compare(saved[b.Trace.Name], saved[a.Trace.Name]) })
	return list
}

// rivals draws the learned policy against Best-Fit, else against the best free rule, a dot for each trace.
func rivals(list []Comparison) []sheet.Chart {
	subject, free, _ := contenders(list)
	if subject == nil || free == nil {
		return nil
	}
	against := free.Policy
	if r := list[0].result(bestFitNames...); r != nil {
		against = r.Policy
	}
	v := sheet.Versus{
		ID: "rivals", Title: shortName(subject.Policy) + " against " + shortName(against) + ", by trace",
		XAxis: shortName(against) + ": cost above the bound, %", YAxis: shortName(subject.Policy) + ": cost above the bound, %",
	}
	below, all := 0, 0
	for i := range list {
		c := &list[i]
		own, other := c.result(subject.Policy), c.result(against)
		if own == nil || other == nil || own.GapToBound == nil || other.GapToBound == nil {
			continue
		}
		if all++; *own.GapToBound < *other.GapToBound {
			below++
		}
		v.Pairs = append(v.Pairs, sheet.Pair{Label: c.Trace.Name, X: 100 * *other.GapToBound, Y: 100 * *own.GapToBound})
	}
	v.About = fmt.Sprintf("%s costs less on %d of %d traces.", shortName(subject.Policy), below, all)
	svg := v.SVG()
	if svg == "" {
		return nil
	}
	return []sheet.Chart{{SVG: svg, Caption: v.Title + ". A dot is a trace; on the diagonal both cost the same, below it " + shortName(subject.Policy) + " costs less: " + strings.TrimPrefix(v.About, shortName(subject.Policy)+" ")}}
}

// assumptions are the facts that the traces lack, and that hence do not count. Traces of a cluster lack
// more of them.
func assumptions(list []Comparison) (lines []string) {
	some := func(is func(t *Trace) bool) bool {
		return slices.ContainsFunc(list, func(c Comparison) bool { return is(&c.Trace) })
	}
	if some(func(t *Trace) bool { return t.Cluster }) {
		lines = append(lines, "Volumes, host ports and affinity to nodes are not in the trace: where they bind, less can be saved.",
			"An empty machine costs nothing here; in the cluster an autoscaler, or you, must remove it.")
		if some(func(t *Trace) bool { return !t.Zones }) {
			lines = append(lines, "Some machines name no zone: what pods prefer or must keep by zone does not count there.")
		}
		if some(func(t *Trace) bool { return !t.Deletes }) {
			lines = append(lines, "No pod comes or goes: a recorded day (sigma snapshot --watch 24h) shows what stays saved.")
		}
		if some(func(t *Trace) bool { return t.Currency == "" }) {
			lines = append(lines, "Costs are of no currency: with prices of nodes (sigma snapshot --prices FILE) this page speaks of money.")
		}
	}
	if some(func(t *Trace) bool { return t.Retry }) {
		lines = append(lines, "Items that find no place wait, and no bound holds for that.")
	}
	return lines
}
