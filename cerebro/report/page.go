package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// Page describes the comparisons with all their parts.
// The paths are of the traces, as the command line gave them: the command that the page proposes has them. The notes
// follow the first table.
func Page(comparisons []Comparison, paths, notes []string) *sheet.Report {
	comparisons = bySaving(comparisons)
	r := &sheet.Report{Title: "Placement policies compared", Summary: Summary(comparisons), Cards: cards(comparisons), Reading: reading}
	if v := newVerdict(comparisons, paths); v.Text != "" {
		r.Summary, r.Figures, r.Next = v.Text, r.Summary, &sheet.Step{Text: v.Next, Command: v.Command}
	}
	r.Data = dataOf(r.Summary, comparisons)
	for _, l := range []sheet.List{
		{Name: "What a policy knows", Terms: explain(comparisons, levels, func(r Result) string { return r.Knowledge })},
		{Name: "What training had seen", Terms: explain(comparisons, exposures, func(r Result) string { return r.Exposure })},
	} {
		if len(l.Terms) > 0 {
			r.Lists = append(r.Lists, l)
		}
	}
	var results []sheet.Section
	for i := range comparisons {
		results = append(results, newSection(fmt.Sprintf("trace-%d", i+1), &comparisons[i]))
	}
	if len(comparisons) > 1 {
		for i := range results {
			results[i].Class, results[i].Folded = "each", len(comparisons) > 3 && !Mixed(comparisons)
		}
		results = slices.Insert(results, 0, sheet.Section{
			ID: "overview", Name: "All traces", About: fmt.Sprintf("%d traces, %s", len(comparisons), strings.ReplaceAll(ordersOf(comparisons), "  ", ", ")),
		})
		if all := &results[0]; !Mixed(comparisons) {
			all.Tables, all.Notes, all.Charts = []sheet.Table{overview(comparisons)}, fallbackNotes(comparisons), append([]sheet.Chart{overviewStrip(comparisons)}, rivals(comparisons)...)
			all.Tables[0].Caption = "Mean over traces ± standard error, in brackets the number of traces where that is not all"
		}
	} else if len(comparisons) == 1 {
		r.Title += ": " + comparisons[0].Trace.Name
		results[0].Name, results[0].About = "", ""
		if s := &results[0]; comparisons[0].Trace.Deletes && len(s.Charts) > 1 {
			r.Sections = append(r.Sections, sheet.Section{Class: "lead", Name: "Machines over time", Charts: []sheet.Chart{s.Charts[1]}})
			s.Charts = slices.Delete(s.Charts, 1, 2)
		}
	}
	if len(results) > 0 {
		results[0].Tables = append(results[0].Tables, asides(comparisons)...)
		results[0].Notes = append(results[0].Notes, notes...)
	}
	if p := newPicture(comparisons); p != nil {
		r.Sections = append(r.Sections, *p)
	}
	r.Sections = append(r.Sections, results...)
	if lines := assumptions(comparisons); len(lines) > 0 {
		r.Sections = append(r.Sections, sheet.Section{Name: "What the figures assume", Notes: lines})
	}
	if lines := provenance(comparisons); len(lines) > 0 {
		r.Sections = append(r.Sections, sheet.Section{Class: "provenance", Name: "Weights and forecasts", Folded: true, Notes: lines})
	}
	return r
}

const reading = "Lower is better but for allocation rates. A bound is what no scheduler can beat, whatever it knows: the sum of all demands does not fit into less. " +
	"A gap is measured from there, and part of it may be beyond anyone’s reach."

var levels = []sheet.Definition{
	{Term: "K0", Text: "the item, the machines, the constraints, and what has happened so far."},
	{Term: "K0+clock", Text: "K0, and the share of the arrival period that has passed. It needs a known end of arrivals."},
	{Term: "K1", Text: "K0, and a forecast per application of how many items there will be at the same time (in a cluster: the declared replicas) and how long they live. The forecast may be wrong and is corrected as requests arrive."},
	{Term: "K1+clock", Text: "K1, and the share of the arrival period that has passed. It needs a known end of arrivals."},
	{Term: "K2", Text: "the true number of items per application, not their order. This is nearly offline and does not compare with the others: it shows the value of perfect foresight."},
}

var exposures = []sheet.Definition{
	{Term: "held out", Text: "training has not seen this trace."},
	{Term: "later days", Text: "training has seen the days before: the figure is of days that it has not seen, on the same cluster."},
	{Term: "same instance, other orders", Text: "training has seen the same items in other orders."},
	{Term: "trained on", Text: "training has seen this very trace: the figure shows how well the policy fits it, not how well it generalises."},
}

// explain lists the definitions of the terms on the page.
func explain(comparisons []Comparison, all []sheet.Definition, term func(Result) string) []sheet.Definition {
	var out []sheet.Definition
	for _, d := range all {
		if slices.ContainsFunc(comparisons, func(c Comparison) bool {
			return slices.ContainsFunc(c.Results, func(r Result) bool { return term(r) == d.Term })
		}) {
			out = append(out, d)
		}
	}
	return out
}

func newSection(id string, c *Comparison) sheet.Section {
	s := sheet.Section{
		ID: id, Name: cmp.Or(c.Trace.Name, "trace"), About: c.Summary(), Facts: c.facts(),
		Tables: []sheet.Table{c.table()}, Notes: fallbackNotes([]Comparison{*c}),
		Charts: append([]sheet.Chart{c.strip(id + "-strip")}, c.charts(id)...),
	}
	s.Tables[0].Caption = fmt.Sprintf("Results on %s; statistics are over %s", c.Trace.Name, c.orderText())
	return s
}

func (c *Comparison) orderText() string {
	switch c.Trace.Orders {
	case 0:
		return "the order of the file"
	case 1:
		return "one shuffled order of arrival"
	}
	return fmt.Sprintf("%d shuffled orders of arrival", c.Trace.Orders)
}

func (c *Comparison) facts() []sheet.Definition {
	t := &c.Trace
	facts := []sheet.Definition{
		{Term: "items", Text: fmt.Sprint(t.Items)},
		{Term: "apps", Text: fmt.Sprint(t.Apps)},
		{Term: "dimensions", Text: dimensionText(t.Dimensions)},
		{Term: "fleet", Text: t.Fleet},
		{Term: "machines", Text: machineText(t.Machines)},
		{Term: "bound", Text: c.boundText()},
	}
	if b := c.bound(); b.Optimal != nil {
		facts = append(facts, sheet.Definition{Term: "optimum", Text: sheet.Short(*b.Optimal)})
	}
	return append(facts,
		sheet.Definition{Term: "seed", Text: fmt.Sprint(t.Seed)},
		sheet.Definition{Term: "orders", Text: fmt.Sprint(t.Orders)},
		sheet.Definition{Term: "instance", Text: shortDigest(t.Digest.Instance)},
		sheet.Definition{Term: "trace", Text: shortDigest(t.Digest.Trace)},
	)
}

func dimensionText(names []string) string {
	const most = 4
	if len(names) > most {
		return fmt.Sprintf("%s … (%d)", strings.Join(names[:most], ", "), len(names))
	}
	return strings.Join(names, ", ")
}

// plotName shortens a name for a narrow plot: it drops the exposure, which the table has,
// and keeps the end of a long path.
func plotName(r *Result) string {
	const most = 26
	like := *r
	like.Exposure, like.Policy = "", shortName(like.Policy)
	if name := []rune(like.Policy); len(name) > most {
		like.Policy = "…" + string(name[len(name)-most:])
	}
	return nameOf(&like)
}

// axisName shortens the name of a dimension for an axis.
func axisName(dimension string) string {
	const most = 26
	if name := []rune(dimension); len(name) > most {
		return string(name[:most]) + "…"
	}
	return dimension
}

// strip shows how much each policy depends on the order of arrival.
func (c *Comparison) strip(id string) sheet.Chart {
	limit, optimal := c.limit()
	p := sheet.Strip{ID: id, Title: "Machines by order of arrival", Axis: "machines", Each: "order", Limit: limit, LimitName: "bound"}
	if optimal {
		p.LimitName = "optimum"
	}
	value := c.need
	switch {
	case c.leavesOut() && len(c.Trace.Dimensions) > 0:
		first := c.Trace.Dimensions[0]
		p.Title, p.Axis = "Rejected "+first+" by order of arrival", axisName(first)+" demand rejected, %"
		p.Limit = nothing
		value = func(run Run) float64 { return 100 * run.Rejected[first] }
	case c.Trace.Retry:
		p.Title, p.Axis, p.Limit = "Mean waiting time by order of arrival", "seconds that an item waited", nothing
		value = waiting
	case c.Trace.Deletes:
		p.Title, p.Axis, p.Limit = "Cost above the bound by order of arrival", "cost above the bound, %", 0
		value = func(run Run) float64 {
			if c.boundCost() == 0 {
				return nothing
			}
			return 100 * (c.cost(run)/c.boundCost() - 1)
		}
	case c.Trace.Mixed:
		p.Title, p.Axis = "Cost by order of arrival", "cost"
	}
	for _, o := range c.outcomes() {
		row := sheet.StripRow{Label: plotName(o.result), Strong: learned(o.result), Extra: nothing}
		runs := o.result.counted()
		for _, run := range runs {
			if v := value(run); !math.IsNaN(v) {
				row.Values = append(row.Values, v)
			}
		}
		if len(runs) < len(o.result.Runs) {
			row.Extra = value(o.result.Runs[0])
		}
		p.Rows = append(p.Rows, row)
	}
	return sheet.Chart{Plot: p, Caption: p.Title + ". A dot is an order, larger where several orders agree; the bar is the mean, the ring the order of the file."}
}

// overviewStrip shows how much each policy depends on the trace.
func overviewStrip(comparisons []Comparison) sheet.Chart {
	p := sheet.Strip{ID: "overview-strip", Title: "Mean cost above the bound, by trace", Axis: "cost above the bound, %", Each: "trace", LimitName: "bound"}
	value, scale := func(o outcome) float64 { return o.gap }, 100.0
	if slices.ContainsFunc(comparisons, func(c Comparison) bool { return c.leavesOut() }) {
		p.Title, p.Axis, p.Limit = "Mean demand rejected, by trace", "demand rejected, %", nothing
		value = func(o outcome) float64 { return o.rejected }
	} else if comparisons[0].Trace.Retry {
		p.Title, p.Axis, p.Limit = "Mean waiting time, by trace", "seconds that an item waited", nothing
		value, scale = func(o outcome) float64 { return o.waiting }, 1
	}
	for _, r := range aggregate(comparisons) {
		row := sheet.StripRow{Label: plotName(&r.like), Strong: learned(&r.like), Extra: nothing}
		for _, o := range r.outcomes {
			if v := value(o); !math.IsNaN(v) {
				row.Values = append(row.Values, round(scale*v))
			}
		}
		p.Rows = append(p.Rows, row)
	}
	return sheet.Chart{Plot: p, Caption: p.Title + ". A dot is a trace, the bar is the mean, a triangle at the edge what lies beyond."}
}
