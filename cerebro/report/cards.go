package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// cards are those of all policies; none of both kinds of traces, since figures of cards are means.
func cards(list []Comparison) (out []sheet.Card) {
	if Mixed(list) {
		return nil
	}
	percent := func(v float64) string {
		if math.IsNaN(v) {
			return "–"
		}
		return minusText(100*v) + " %"
	}
	subject, free, _ := contenders(list)
	alone := len(list) == 1
	for _, row := range aggregate(list) {
		r := &row.like
		need := sheet.Definition{Term: "machines", Text: sheet.Short(row.mean(machinesHead))}
		if !alone {
			need.Term += ", mean"
		} else if list[0].Trace.Mixed {
			need = sheet.Definition{Term: "cost", Text: sheet.Short(row.outcomes[0].cost)}
		}
		second := sheet.Definition{Term: "above the bound", Text: percent(row.mean(gapHead))}
		if list[0].Trace.Retry {
			second = sheet.Definition{Term: "wait s, mean", Text: sheet.Short(row.mean(waitHead))}
		}
		var third sheet.Definition
		if left := row.mean(unplacedHead); alone && left > 0 {
			third = sheet.Definition{Term: "items left out", Text: sheet.Short(left)}
		} else if free != nil && (alone || subject != nil) && r.Policy != free.Policy {
			if i := savingPercent(list, r.Policy, free.Policy); i != nil {
				third = sheet.Definition{Term: "saved against " + shortName(free.Policy), Text: percent(i.Mean / 100)}
			}
		}
		out = append(out, sheet.Card{Name: shortName(r.Policy), About: r.Policy, Strong: learned(r), Figures: []sheet.Definition{need, second, third}})
	}
	return out
}

// shortNames are names of policies without folders and endings, where that leaves them apart; "" = as they are.
func shortNames(full []string) []string {
	short, whose := make([]string, len(full)), map[string]string{}
	for i, name := range full {
		short[i] = shortName(name)
		if other, ok := whose[short[i]]; ok && other != name {
			name = ""
		}
		whose[short[i]] = name
	}
	for i, name := range full {
		if whose[short[i]] != name || short[i] == name {
			short[i] = ""
		}
	}
	return short
}

// shorten gives the rows of a table their short names.
func shorten(t *sheet.Table) {
	var full []string
	for _, r := range t.Rows {
		full = append(full, r.Cells[0])
	}
	for i, short := range shortNames(full) {
		t.Rows[i].Short = short
	}
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
	v := sheet.Scatter{
		Equal: true, XLimit: nothing, YLimit: nothing, ID: "rivals", Title: shortName(subject.Policy) + " against " + shortName(against) + ", by trace",
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
		d := sheet.Dot{X: 100 * *other.GapToBound, Y: 100 * *own.GapToBound, Strong: true}
		d.About = fmt.Sprintf("%s: %s against %s", c.Trace.Name, sheet.Short(d.Y), sheet.Short(d.X))
		v.Dots = append(v.Dots, d)
	}
	v.About = fmt.Sprintf("%s costs less on %d of %d traces.", shortName(subject.Policy), below, all)
	return []sheet.Chart{{Plot: v, Caption: v.Title + ". A dot is a trace; on the diagonal both cost the same, below it " + shortName(subject.Policy) + " costs less: " + strings.TrimPrefix(v.About, shortName(subject.Policy)+" ")}}
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
