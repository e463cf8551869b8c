package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/plural"
	"github.com/sigma-scheduler/sigma/internal/sheet"
)

const (
	mostColumns    = 400 // larger fleets are drawn in part
	mostSideBySide = 60
)

// newPicture shows the placements of two policies in one order of arrival: a column for each machine, its items stacked
// and coloured by app. It is of the trace that has layouts, and nil without one or without items.
func newPicture(comparisons []Comparison) *sheet.Section {
	at := slices.IndexFunc(comparisons, func(c Comparison) bool {
		return slices.ContainsFunc(c.Results, func(r Result) bool { return r.Layout != nil })
	})
	if at < 0 {
		return nil
	}
	c := &comparisons[at]
	results := c.pictured(comparisons)
	if len(results) == 0 {
		return nil
	}
	var layouts []*Layout
	for _, r := range results {
		layouts = append(layouts, r.Layout)
	}
	d := dearest(layouts)
	rank := ranks(layouts, d)
	dimension := layouts[0].Instance.Dimensions[d].Name
	p := &sheet.Section{Class: "picture", Name: "What stands on the machines", Picture: &sheet.Picture{}}
	if order := layouts[0].Order; order == 0 {
		p.Caption = "At the end of the order of the file"
	} else {
		p.Caption = fmt.Sprintf("At the end of shuffled order %d", order)
	}
	if len(comparisons) > 1 {
		p.Caption += " of " + c.Trace.Name
	}
	if both := len(results) == 2 && results[1].Digest != ""; both && (c.Trace.Orders > 1 || len(comparisons) > 1) && !Mixed(comparisons) {
		p.Caption += ", in which the two differ most nearly as in the mean"
	}
	g := drawing{layouts: layouts, dimension: d, rank: rank, size: "requested", of: "of"}
	if c.Trace.ByUse {
		g.size, g.of = "counted", "counted at"
	}
	most := 1
	for _, l := range layouts {
		g.machines = append(g.machines, l.drawn(d, rank))
		if len(g.machines[len(g.machines)-1]) == 0 { // no item has a size there
			return nil
		}
		most = max(most, len(g.machines[len(g.machines)-1]))
	}
	g.every = (most + mostColumns - 1) / mostColumns
	for i := range g.machines {
		g.machines[i] = oneIn(g.every, g.machines[i])
	}
	limit, name := c.columnLimit()
	g.columns, g.limit, g.limitName = (max(most, limit)+g.every-1)/g.every, limit, name
	wide := g.columns > mostSideBySide // too many machines for two panels side by side
	if wide {
		p.Class += " wide"
	}
	p.Caption += fmt.Sprintf(": a column is a machine, the fullest first, a colour is an app, grey is free. Heights are %s shares of the machine’s %s.", g.size, dimension)
	if c.Trace.Mixed {
		p.Caption += " Machines differ in size and cost: fewer of them may cost more."
	}
	if g.every > 1 {
		p.Caption += fmt.Sprintf(" One machine in %d is drawn.", g.every)
	}
	if c.Trace.Deletes {
		p.Caption += " Items leave: this is the last moment, and costs are over time."
	}
	if wide {
		p.Caption += " Items of one app on a machine are drawn as one, and only the largest apps have a strong colour."
	}
	for i, r := range results {
		p.Picture.Panels = append(p.Picture.Panels, g.panel(i, r, fmt.Sprintf("machines-%d", i+1), wide))
	}
	p.Picture.Key = g.key()
	p.Picture.Rest = len(p.Picture.Key) < len(rank)
	return p
}

// subject is the summary's policy next to Best-Fit; nil = no such policy.
func subject(comparisons []Comparison) *Result {
	k := claimOf(comparisons)
	if k.subject == nil {
		return nil
	}
	return k.subject.result
}

// pictured are the policies that the verdict compares. Without a verdict on a learned policy they are the present placement,
// else Best-Fit, and the summary's policy, or else the best of the others.
func (c *Comparison) pictured(comparisons []Comparison) []*Result {
	var list []*Result
	add := func(r *Result) {
		if r != nil && r.Layout != nil && !r.Layout.empty() && len(list) < 2 && !slices.Contains(list, r) {
			list = append(list, r)
		}
	}
	policy, against := Drawn(comparisons)
	switch {
	case policy != "":
		add(c.result(against))
	case newVerdict(comparisons, nil).Text != "":
		add(c.result("current"))
	default:
		add(c.result(bestFitNames...))
	}
	subject := subject(comparisons)
	if policy != "" {
		subject, _, _ = contenders(comparisons)
	}
	for i := range c.Results {
		r := &c.Results[i]
		if subject != nil && r.Policy == subject.Policy && r.Knowledge == subject.Knowledge {
			add(r)
		}
	}
	for _, o := range c.outcomes() {
		add(o.result)
	}
	return list
}

// columnLimit is the lower bound in machines, if that is a number of columns.
func (c *Comparison) columnLimit() (limit int, name string) {
	value, optimal := c.limit()
	switch {
	case c.Trace.Deletes || c.Trace.Mixed || c.Trace.Fleet == "fixed":
		return 0, ""
	case optimal:
		return int(math.Ceil(value)), "optimum"
	}
	return c.bound().Machines, "bound"
}

// A drawing holds the values that the panels of a picture share.
type drawing struct {
	layouts   []*Layout
	machines  [][]Machine // of each layout, in the order they are drawn
	dimension int
	rank      []int  // of the apps
	every     int    // one machine in so many is drawn
	size, of  string // words for demands: requests, or sizes by use
	columns   int    // that fit
	limit     int    // machines; 0 = no limit
	limitName string
}

func (g *drawing) panel(i int, r *Result, id string, wide bool) sheet.Panel {
	l, machines := g.layouts[i], g.machines[i]
	dim := l.Instance.Dimensions[g.dimension]
	requested, capacity, holding := 0., 0., 0
	for i := range l.Machines {
		if m := &l.Machines[i]; len(m.Items) > 0 {
			requested, capacity, holding = requested+float64(l.requested(m, g.dimension)), capacity+float64(l.capacity(m)[g.dimension]), holding+1
		}
	}
	p := sheet.Panel{ID: id, Name: plotName(r)}
	p.Note = fmt.Sprintf("%s, %s %% of their %s %s", plural.Of(holding, "machine"), sheet.Figure(100*requested/math.Max(1, capacity), 1, false), dim.Name, g.size)
	for _, run := range r.Runs {
		if run.Order == l.Order && run.Unplaced > 0 {
			p.Note += fmt.Sprintf("; %s found no place", plural.Of(run.Unplaced, "item"))
		}
	}
	p.SVG = g.svg(i, p, wide)
	shown := g.shown()
	p.Table.Caption = "Machines under " + p.Name
	p.Table.Columns = []sheet.Column{{Head: "machine", Words: true}, {Head: "items"}}
	for _, d := range shown {
		p.Table.Columns = append(p.Table.Columns, sheet.Column{Head: l.Instance.Dimensions[d].Name + " free"})
	}
	p.Table.Columns = append(p.Table.Columns, sheet.Column{Head: "holds", Words: true})
	for _, m := range machines {
		p.Table.Add(g.row(l, &m, shown)...)
	}
	return p
}

// shown are the dimensions that the page mentions: the drawn one and the first of the
// others.
func (g *drawing) shown() []int {
	const most = 3
	list := []int{g.dimension}
	for d := range g.layouts[0].Instance.Dimensions {
		if d != g.dimension && len(list) < most {
			list = append(list, d)
		}
	}
	return list
}

func (g *drawing) row(l *Layout, m *Machine, shown []int) []string {
	items := 0
	for _, e := range m.Items {
		items += int(e.Count)
	}
	row := []string{trace.MachineName(l.Instance, m.Line, m.Index), fmt.Sprint(items)}
	for _, d := range shown {
		dim, capacity := l.Instance.Dimensions[d], l.capacity(m)[d]
		row = append(row, fmt.Sprintf("%s of %s",
			trace.FormatAmount(capacity-l.requested(m, d), dim), trace.FormatAmount(capacity, dim)))
	}
	return append(row, l.contents(m))
}

// svg draws one path for each app, which keeps a page of thousands of items small.
func (g *drawing) svg(which int, p sheet.Panel, wide bool) template.HTML {
	const top, foot, left = 30, 50, 78
	width, height := sheet.Width, 380
	if wide {
		width, height = 2*sheet.Width, 270
	}
	l, machines := g.layouts[which], g.machines[which]
	bottom := float64(height - foot)
	pitch := float64(width-sheet.Margin-left) / float64(g.columns)
	gap := math.Min(4, pitch/6)
	full := bottom - top // height of a whole machine

	var b strings.Builder
	about := p.Note + "."
	if len(machines) > 0 {
		about += fmt.Sprintf(" Of the fullest %s %% are %s, of the emptiest %s %%.",
			sheet.Figure(100*l.share(&machines[0], g.dimension), 0, false), g.size,
			sheet.Figure(100*l.share(&machines[len(machines)-1], g.dimension), 0, false))
	}
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" role="img" aria-labelledby="%s-title %s-desc" data-left="%d" data-pitch="%.3f">`,
		width, height, p.ID, p.ID, left, pitch)
	fmt.Fprintf(&b, `<title id="%s-title">%s</title><desc id="%s-desc">%s</desc>`, p.ID, sheet.Escape("Machines under "+p.Name), p.ID, sheet.Escape(about))
	for _, share := range []int{0, 50, 100} {
		y := bottom - full*float64(share)/100
		fmt.Fprintf(&b, `<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`, left, y, width-sheet.Margin, y)
		fmt.Fprintf(&b, `<text class="tick" text-anchor="end" x="%d" y="%.1f">%d %%</text>`, left-7, y+5, share)
	}
	free := &strings.Builder{}
	apps := make([]strings.Builder, len(l.Instance.Apps))
	for i, m := range machines {
		x := left + float64(i)*pitch + gap/2
		fmt.Fprintf(free, "M%.1f %dh%.1fV%.1fh-%.1fz", x, top, pitch-gap, bottom, pitch-gap)
		g.stack(apps, l, &m, x, bottom, pitch-gap, full, wide)
	}
	fmt.Fprintf(&b, `<path class="free" d="%s"/>`, free)
	counts := l.items()
	for a := range apps {
		if apps[a].Len() == 0 {
			continue
		}
		app := &l.Instance.Apps[a]
		fmt.Fprintf(&b, `<path class="app" data-app="%d" fill="%s" d="%s"><title>%s</title></path>`,
			a, colour(g.rank[a]), &apps[a], sheet.Escape(fmt.Sprintf("%s: %s %s %s each", app.Name, plural.Of(counts[a], "item"), g.of, l.amounts(app.Demand, g.shown()))))
	}
	if g.limit > 0 {
		x := left + float64(g.limit)*pitch/float64(g.every)
		fmt.Fprintf(&b, `<line class="limit" x1="%.1f" y1="%d" x2="%.1f" y2="%.1f"/>`, x, top-4, x, bottom+6)
		anchor := "middle"
		if x > float64(width)-80 {
			anchor, x = "end", float64(width-sheet.Margin)
		}
		fmt.Fprintf(&b, `<text class="limit" text-anchor="%s" x="%.1f" y="%d">%s %d</text>`, anchor, x, top-10, g.limitName, g.limit)
	}
	g.numbers(&b, left, bottom, pitch)
	fmt.Fprintf(&b, `<text class="axis" text-anchor="end" x="%d" y="%d">machines, the fullest first</text>`, width-sheet.Margin, height-6)
	fmt.Fprintf(&b, `<rect class="cursor" visibility="hidden" y="%d" width="%.2f" height="%.1f"/></svg>`, top-2, math.Max(2, pitch-gap+1), full+4)
	return template.HTML(b.String()) //nolint:gosec // every text went through escape
}

// stack draws the items of one machine from the bottom up: one by one, or the items of an
// app together.
func (g *drawing) stack(apps []strings.Builder, l *Layout, m *Machine, x, bottom, width, full float64, merged bool) {
	capacity := float64(l.capacity(m)[g.dimension])
	y := bottom
	for _, e := range m.Items {
		height, times := full*float64(l.Instance.Apps[e.App].Demand[g.dimension])/capacity, int(e.Count)
		if merged {
			height, times = height*float64(times), 1
		}
		for range times {
			y -= height
			line := 0.0 // between items, if there is room
			if height > 3 {
				line = .8
			}
			if height >= .05 {
				fmt.Fprintf(&apps[e.App], "M%.1f %.1fh%.1fv%.1fh-%.1fz", x, y+line, width, height-line, width)
			}
		}
	}
}

// numbers writes the numbers of the machines.
func (g *drawing) numbers(b *strings.Builder, left int, bottom, pitch float64) {
	most := g.columns * g.every
	step := max(1, int(sheet.NewAxis(0, float64(most), 0, 1).Step()))
	for n := step; n <= most; n += step {
		fmt.Fprintf(b, `<text class="tick" text-anchor="middle" x="%.1f" y="%.1f">%d</text>`,
			float64(left)+(float64(n)/float64(g.every)-.5)*pitch, bottom+20, n)
	}
}

// mostColours is the number of apps with a strong colour; readers cannot distinguish more.
const mostColours = 24

// colour returns the colour of a rank. Neighbours differ much in hue, ranks of similar hue
// differ in shade, and the many small apps are pale.
func colour(rank int) string {
	shades := [...]string{"62%,52%", "55%,68%", "58%,40%"}
	if rank >= mostColours {
		shades = [...]string{"16%,54%", "16%,62%", "16%,48%"}
	}
	return fmt.Sprintf("hsl(%d,%s)", rank*222%360, shades[rank%len(shades)])
}

// key lists the colours of the largest apps.
func (g *drawing) key() []sheet.Definition {
	const most = 8
	l := g.layouts[0]
	list := make([]sheet.Definition, min(most, len(g.rank)))
	for a, n := range l.items() {
		if rank := g.rank[a]; rank < len(list) {
			app := &l.Instance.Apps[a]
			list[rank] = sheet.Definition{Term: colour(rank), Text: fmt.Sprintf("%s: %s%s each, %d of them", app.Name, strings.TrimPrefix(g.of+" ", "of "), l.amounts(app.Demand, g.shown()), n)}
		}
	}
	return list
}
