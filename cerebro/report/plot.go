package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/cerebro"
)

// Plots are SVG inside the page. Lengths are in units of a view box that is
// plotWidth wide; the page's style makes letters larger on a narrow screen, so
// that rows leave room for that.
const (
	plotWidth  = 640
	plotMargin = 14
)

// A stripRow is the distribution of one policy's values: a dot for each.
type stripRow struct {
	label, note string
	learned     bool
	values      []float64
	extra       float64 // order of the file, drawn as a ring; NaN = none
}

// A strip is a dot plot with a row per policy and one scale for all.
type strip struct {
	id, title, about string
	axis             string // what the scale counts
	each             string // what a dot is: "order"
	limit            float64
	limitName        string
	rows             []stripRow
}

func (p strip) svg() template.HTML {
	const top, rowHeight, foot = 34, 58, 58
	low, high := p.limit, p.limit
	for _, r := range p.rows {
		for _, v := range append([]float64{r.extra}, r.values...) {
			if !math.IsNaN(v) {
				low, high = fmin(low, v), fmax(high, v)
			}
		}
	}
	if math.IsNaN(low) {
		return ""
	}
	a := newAxis(low, high, plotMargin, plotWidth-plotMargin)
	height := top + rowHeight*len(p.rows) + foot
	bottom := height - foot
	var b strings.Builder
	open(&b, p.id, height, p.title, p.about)
	a.vertical(&b, top, bottom)
	if !math.IsNaN(p.limit) {
		x := a.at(p.limit)
		fmt.Fprintf(&b, `<path class="limit" d="M%.1f %dV%d`, x, top-6, top)
		for i := range p.rows { // beside the dots, not through the names
			fmt.Fprintf(&b, `M%.1f %dV%d`, x, top+rowHeight*i+28, top+rowHeight*i+56)
		}
		b.WriteString(`"/>`)
		label(&b, "limit", x, top-14, limitText(p.limitName, p.limit))
	}
	for i, r := range p.rows {
		y := top + rowHeight*i
		class := "rule"
		if r.learned {
			class = "learned"
		}
		fmt.Fprintf(&b, `<g class="%s"><text class="name" x="%d" y="%d">%s<tspan class="note" dx="10">%s</tspan></text>`,
			class, plotMargin, y+22, escape(r.label), escape(r.note))
		fmt.Fprintf(&b, `<line class="base" x1="%d" y1="%d" x2="%d" y2="%d"/>`, plotMargin, y+42, plotWidth-plotMargin, y+42)
		p.dots(&b, a, r, y+42)
		b.WriteString(`</g>`)
	}
	label(&b, "axis", plotWidth-plotMargin, height-8, p.axis)
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) //nolint:gosec // every text went through escape
}

// dots draws equal values as one dot whose area grows with their number.
func (p strip) dots(b *strings.Builder, a axis, r stripRow, y int) {
	values := slices.Clone(r.values)
	slices.Sort(values)
	for i := 0; i < len(values); {
		n := 1
		for i+n < len(values) && values[i+n] == values[i] {
			n++
		}
		each := p.each
		if n > 1 {
			each += "s"
		}
		fmt.Fprintf(b, `<circle class="dot" cx="%.1f" cy="%d" r="%.1f"><title>%s: %s in %d %s</title></circle>`,
			a.at(values[i]), y, fmin(11, 4.5*math.Sqrt(1+float64(n-1)/4)), escape(r.label), short(values[i]), n, each)
		i += n
	}
	if len(values) > 0 {
		x := a.at(estimate(values).Mean)
		fmt.Fprintf(b, `<line class="mean" x1="%.1f" y1="%d" x2="%.1f" y2="%d"><title>mean %s</title></line>`,
			x, y-12, x, y+12, short(estimate(values).Mean))
	}
	if !math.IsNaN(r.extra) {
		fmt.Fprintf(b, `<circle class="ring" cx="%.1f" cy="%d" r="8"><title>%s: %s in the order of the file</title></circle>`,
			a.at(r.extra), y, escape(r.label), short(r.extra))
	}
}

// A line is the time series of one policy.
type line struct {
	label  string
	series []cerebro.Sample
}

// A lineChart draws a value over time. Lines differ by colour and by dashes.
type lineChart struct {
	id, title string
	axis      string // what the value is
	lines     []line
	value     func(cerebro.Sample) float64
	limit     float64 // NaN = none
	limitName string
}

func (p lineChart) svg() template.HTML {
	const height, top, foot, left = 348, 30, 58, 52
	start, end, most := math.Inf(1), math.Inf(-1), p.limit
	var ends []string
	for _, l := range p.lines {
		for _, s := range l.series {
			start, end = fmin(start, s.Time), fmax(end, s.Time)
			most = fmax(most, p.value(s))
		}
		ends = append(ends, l.label+" ends with "+short(p.value(l.series[len(l.series)-1])))
	}
	if !(end > start) {
		return ""
	}
	unit, seconds := timeUnit(end - start)
	x := newAxis(0, (end-start)/seconds, left, plotWidth-plotMargin)
	x.low, x.high = 0, (end-start)/seconds // a line need not end at a round number
	y := newAxis(0, most, height-foot, top)
	var b strings.Builder
	open(&b, p.id, height, p.title, strings.Join(ends, "; ")+".")
	y.horizontal(&b, left, plotWidth-plotMargin)
	x.vertical(&b, top, height-foot)
	for i, l := range p.lines {
		fmt.Fprintf(&b, `<path class="line p%d" d="%s"><title>%s</title></path>`,
			i, steps(thin(l.series, start, end, p.value), p.value, start, seconds, x, y), escape(l.label))
	}
	if !math.IsNaN(p.limit) {
		at := y.at(p.limit)
		fmt.Fprintf(&b, `<line class="limit" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`, left, at, plotWidth-plotMargin, at)
		fmt.Fprintf(&b, `<text class="limit" text-anchor="end" x="%d" y="18">%s</text>`, plotWidth-plotMargin, escape(limitText(p.limitName, p.limit)))
	}
	fmt.Fprintf(&b, `<text class="axis" text-anchor="end" x="%d" y="%d">%s</text>`, plotWidth-plotMargin, height-8, unit)
	fmt.Fprintf(&b, `<text class="axis" x="%d" y="18">%s</text>`, 4, escape(p.axis))
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) //nolint:gosec // every text went through escape
}

// thin keeps at most one sample a bucket of time, that with the largest value,
// so that peaks stay visible.
func thin(series []cerebro.Sample, start, end float64, value func(cerebro.Sample) float64) []cerebro.Sample {
	const buckets = 300
	var out []cerebro.Sample
	last := -1
	for i, s := range series {
		bucket := int(buckets * (s.Time - start) / (end - start))
		switch {
		case bucket != last || i == len(series)-1:
			out = append(out, s)
			last = bucket
		case value(s) > value(out[len(out)-1]):
			out[len(out)-1] = s
		}
	}
	return out
}

// steps is a path that keeps each value until the next sample.
func steps(series []cerebro.Sample, value func(cerebro.Sample) float64, start, seconds float64, x, y axis) string {
	var b strings.Builder
	for i, s := range series {
		px, py := x.at((s.Time-start)/seconds), y.at(value(s))
		if i == 0 {
			fmt.Fprintf(&b, "M%.1f %.1f", px, py)
			continue
		}
		fmt.Fprintf(&b, "H%.1fV%.1f", px, py)
	}
	return b.String()
}

func timeUnit(span float64) (name string, seconds float64) {
	switch {
	case span >= 2*86400:
		return "days", 86400
	case span >= 2*3600:
		return "hours", 3600
	case span >= 2*60:
		return "minutes", 60
	}
	return "seconds", 1
}

// An axis maps values between low and high to lengths between from and to.
type axis struct {
	low, high, step float64
	from, to        float64
}

// newAxis covers a range with about six round steps.
func newAxis(low, high float64, from, to int) axis {
	if !(high-low > 1e-300) { // steps of less would be 0
		high = low + 1
	}
	raw := (high - low) / 6
	step := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, k := range []float64{1, 2, 5, 10} {
		if k*step >= raw {
			step *= k
			break
		}
	}
	return axis{math.Floor(low/step) * step, math.Ceil(high/step) * step, step, float64(from), float64(to)}
}

func (a axis) at(v float64) float64 {
	return a.from + (v-a.low)/(a.high-a.low)*(a.to-a.from)
}

// ticks are the round values on the axis.
func (a axis) ticks() []float64 {
	var list []float64
	for i := 0; ; i++ {
		v := a.low + float64(i)*a.step
		if v > a.high+a.step/1000 {
			return list
		}
		list = append(list, v)
	}
}

func (a axis) vertical(b *strings.Builder, top, bottom int) {
	digits := decimals(2, a.ticks())
	for _, v := range a.ticks() {
		x := a.at(v)
		fmt.Fprintf(b, `<line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`, x, top, x, bottom)
		fmt.Fprintf(b, `<text class="tick" text-anchor="middle" x="%.1f" y="%d">%s</text>`, x, bottom+23, figure(v, digits, false))
	}
}

func (a axis) horizontal(b *strings.Builder, left, right int) {
	digits := decimals(2, a.ticks())
	for _, v := range a.ticks() {
		y := a.at(v)
		fmt.Fprintf(b, `<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`, left, y, right, y)
		fmt.Fprintf(b, `<text class="tick" text-anchor="end" x="%d" y="%.1f">%s</text>`, left-6, y+5, figure(v, digits, false))
	}
}

// label centres a text on x; near the edges it leans inwards.
func label(b *strings.Builder, class string, x float64, y int, text string) {
	anchor := "middle"
	if x < 60 {
		anchor = "start"
	} else if x > plotWidth-60 {
		anchor = "end"
	}
	fmt.Fprintf(b, `<text class="%s" text-anchor="%s" x="%.1f" y="%d">%s</text>`, class, anchor, x, y, escape(text))
}

func open(b *strings.Builder, id string, height int, title, about string) {
	fmt.Fprintf(b, `<svg viewBox="0 0 %d %d" role="img" aria-labelledby="%s-title %s-desc"><title id="%s-title">%s</title><desc id="%s-desc">%s</desc>`,
		plotWidth, height, id, id, id, escape(title), id, escape(about))
}

// limitText names a limit with its value, unless that is where the scale begins.
func limitText(name string, limit float64) string {
	if limit == 0 {
		return name
	}
	return name + " " + short(limit)
}

func escape(s string) string { return template.HTMLEscapeString(s) }

// fmin and fmax pass over a NaN, which stands for nothing.
func fmin(a, b float64) float64 {
	if math.IsNaN(a) || b < a {
		return b
	}
	return a
}

func fmax(a, b float64) float64 {
	if math.IsNaN(a) || b > a {
		return b
	}
	return a
}
