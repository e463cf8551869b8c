package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/internal/sheet"
)

//go:embed page.html
var pageText string

var pageTemplate = sheet.Template(pageText)

// HTML writes the comparisons as one page without other files or network; its script only highlights parts of the page.
// The paths are of the traces, as the command line gave them: the command that the page proposes has them. The notes
// follow the first table.
func HTML(w io.Writer, comparisons []Comparison, paths, notes []string) error {
	p := newPage(comparisons, paths)
	switch {
	case p.Overview != nil:
		p.Overview.Notes = append(p.Overview.Notes, notes...)
	case len(p.Sections) > 0:
		p.Sections[0].Notes = append(p.Sections[0].Notes, notes...)
	}
	if err := pageTemplate.Execute(w, p); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

type page struct {
	Title, Summary string
	Verdict        verdict // its text is empty where costs do not compare
	Cards          []card
	Assumed        []string
	Provenance     []string
	Lead           *sheet.Chart // machines over time, where items also leave
	Picture        *picture
	Orders         string
	Overview       *section // of several traces
	Sections       []section
	Collapsed      bool
	Columns        []sheet.Definition
	Levels         []sheet.Definition
	Exposures      []sheet.Definition
	Data           sheet.Data
}

type section struct {
	ID, Name, Summary, Caption string
	Facts                      []sheet.Definition
	Table                      sheet.Table
	Asides                     []aside
	Notes                      []string
	Strip                      template.HTML
	StripCaption               string
	Charts                     []sheet.Chart
}

func newPage(comparisons []Comparison, paths []string) page {
	comparisons = bySaving(comparisons)
	p := page{
		Title: "Placement policies compared", Summary: Summary(comparisons), Verdict: newVerdict(comparisons, paths), Cards: cards(comparisons),
		Assumed: assumptions(comparisons), Provenance: provenance(comparisons), Picture: newPicture(comparisons), Collapsed: len(comparisons) > 3,
	}
	seen := map[string]bool{}
	learn := func(g grid) sheet.Table {
		for _, c := range g.columns {
			if !seen[c.head] {
				seen[c.head] = true
				p.Columns = append(p.Columns, sheet.Definition{Term: c.head, Text: c.about})
			}
		}
		return g.html()
	}
	if len(comparisons) == 1 {
		p.Title += ": " + comparisons[0].Trace.Name
	}
	if len(comparisons) > 1 {
		p.Orders = fmt.Sprintf("%d traces, %s", len(comparisons), strings.ReplaceAll(ordersOf(comparisons), "  ", ", "))
		p.Overview = &section{
			ID: "overview", Name: "All traces", Caption: "Mean over traces ± standard error, in brackets the number of traces where that is not all",
			Table: learn(overview(comparisons)), Notes: fallbackNotes(comparisons),
		}
		p.Overview.Strip, p.Overview.StripCaption = overviewStrip(comparisons)
		p.Overview.Charts = rivals(comparisons)
	}
	for i := range comparisons {
		p.Sections = append(p.Sections, newSection(fmt.Sprintf("trace-%d", i+1), &comparisons[i], learn))
	}
	switch {
	case p.Overview != nil:
		p.Overview.Asides = asides(comparisons)
	case len(p.Sections) > 0:
		s := &p.Sections[0]
		s.Asides = asides(comparisons)
		if comparisons[0].Trace.Deletes && len(s.Charts) > 0 {
			p.Lead, s.Charts = &s.Charts[0], s.Charts[1:]
		}
	}
	p.Data = dataOf(cmp.Or(p.Verdict.Text, p.Summary), comparisons)
	p.Levels = explain(comparisons, levels, func(r Result) string { return r.Knowledge })
	p.Exposures = explain(comparisons, exposures, func(r Result) string { return r.Exposure })
	return p
}

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

func newSection(id string, c *Comparison, learn func(grid) sheet.Table) section {
	s := section{
		ID: id, Name: c.Trace.Name, Summary: c.Summary(), Facts: c.facts(),
		Table: learn(c.grid()), Notes: fallbackNotes([]Comparison{*c}),
		Caption: fmt.Sprintf("Results on %s; statistics are over %s", c.Trace.Name, c.orderText()),
	}
	if c.Trace.Name == "" {
		s.Name = "trace"
	}
	s.Strip, s.StripCaption = c.strip(id + "-strip")
	s.Charts = c.charts(id)
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
	if c.Bound.Optimal != nil {
		facts = append(facts, sheet.Definition{Term: "optimum", Text: sheet.Short(*c.Bound.Optimal)})
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

func (g grid) html() sheet.Table {
	var t sheet.Table
	for _, c := range g.columns {
		t.Heads = append(t.Heads, sheet.Cell{Text: strings.ReplaceAll(c.head, " %", "\u00a0%"), About: c.about, Words: c.text})
	}
	names := shortNames(g)
	for r := range g.rows {
		var row sheet.Row
		if r == g.split {
			row.Break = "Nearly offline: K2 knows the true totals"
		}
		for i, c := range g.columns {
			cell := sheet.Cell{Text: strings.Replace(c.cells[r], "-", minus(c, r), 1), Words: c.text}
			if i == 0 && names[r] != c.cells[r] {
				cell.Text, cell.About = names[r], c.cells[r]
			}
			row.Cells = append(row.Cells, cell)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// minus replaces a hyphen in a cell: by a minus before a figure, by a dash alone; in
// words it stays.
func minus(c column, r int) string {
	switch {
	case c.cells[r] == "-":
		return "–"
	case c.text:
		return "-"
	}
	return "−"
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
func (c *Comparison) strip(id string) (template.HTML, string) {
	limit, optimal := c.limit()
	p := strip{id: id, title: "Machines by order of arrival", axis: "machines", each: "order", limit: limit, limitName: "bound"}
	if optimal {
		p.limitName = "optimum"
	}
	value := c.need
	switch {
	case c.leavesOut() && len(c.Trace.Dimensions) > 0:
		first := c.Trace.Dimensions[0]
		p.title, p.axis = "Rejected "+first+" by order of arrival", axisName(first)+" demand rejected, %"
		p.limit = nothing
		value = func(run Run) float64 { return 100 * run.Rejected[first] }
	case c.Trace.Retry:
		p.title, p.axis, p.limit = "Mean waiting time by order of arrival", "seconds that an item waited", nothing
		value = waiting
	case c.Trace.Deletes:
		p.title, p.axis, p.limit = "Cost above the bound by order of arrival", "cost above the bound, %", 0
		value = func(run Run) float64 {
			if c.boundCost() == 0 {
				return nothing
			}
			return 100 * (c.cost(run)/c.boundCost() - 1)
		}
	case c.Trace.Mixed:
		p.title, p.axis = "Cost by order of arrival", "cost"
	}
	for _, o := range c.outcomes() {
		row := stripRow{label: plotName(o.result), learned: learned(o.result), extra: nothing}
		runs := o.result.counted()
		for _, run := range runs {
			if v := value(run); !math.IsNaN(v) {
				row.values = append(row.values, v)
			}
		}
		if len(runs) < len(o.result.Runs) {
			row.extra = value(o.result.Runs[0])
		}
		row.note = spreadText(row.values)
		p.rows = append(p.rows, row)
	}
	p.about = p.describe()
	return p.svg(), p.title + ". A dot is an order, larger where several orders agree; the bar is the mean, the ring the order of the file."
}

// overviewStrip shows how much each policy depends on the trace.
func overviewStrip(comparisons []Comparison) (template.HTML, string) {
	p := strip{
		id: "overview-strip", title: "Mean cost above the bound, by trace", axis: "cost above the bound, %",
		each: "trace", limit: 0, limitName: "bound",
	}
	value, scale := func(o outcome) float64 { return o.gap }, 100.0
	if slices.ContainsFunc(comparisons, func(c Comparison) bool { return c.leavesOut() }) {
		p.title, p.axis, p.limit = "Mean demand rejected, by trace", "demand rejected, %", nothing
		value = func(o outcome) float64 { return o.rejected }
	} else if comparisons[0].Trace.Retry {
		p.title, p.axis, p.limit = "Mean waiting time, by trace", "seconds that an item waited", nothing
		value, scale = func(o outcome) float64 { return o.waiting }, 1
	}
	type key struct{ policy, knowledge string }
	values := map[key][]float64{}
	for i := range comparisons {
		for _, o := range comparisons[i].outcomes() {
			if v := value(o); !math.IsNaN(v) {
				k := key{o.result.Policy, o.result.Knowledge}
				values[k] = append(values[k], round(scale*v))
			}
		}
	}
	for _, r := range Aggregate(comparisons) {
		like := &Result{Policy: r.Policy, Knowledge: r.Knowledge, Exposure: r.Exposure}
		row := stripRow{label: plotName(like), learned: learned(like), extra: nothing}
		row.values = values[key{r.Policy, r.Knowledge}]
		row.note = spreadText(row.values)
		p.rows = append(p.rows, row)
	}
	p.about = p.describe()
	return p.svg(), p.title + ". A dot is a trace, the bar is the mean, a triangle at the edge what lies beyond."
}

func spreadText(values []float64) string {
	if len(values) == 0 {
		return "-"
	}
	low, mean, high := slices.Min(values), estimate(values).Mean, slices.Max(values)
	if low == high {
		return sheet.Short(low)
	}
	return fmt.Sprintf("%s to %s, mean %s", sheet.Short(low), sheet.Short(high), sheet.Short(mean))
}

// describe describes the plot in words.
func (p strip) describe() string {
	var parts []string
	for _, r := range p.rows {
		parts = append(parts, r.label+": "+r.note)
	}
	s := strings.Join(parts, "; ")
	if !math.IsNaN(p.limit) {
		s += "; " + p.limitName + ": " + sheet.Short(p.limit)
	}
	return s + "."
}
