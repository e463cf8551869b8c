package sheet

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"sort"
	"strings"
)

// A StripRow is the distribution of one policy's values: a dot for each.
type StripRow struct {
	Label  string
	Strong bool
	Values []float64
	Extra  float64 // order of the file, drawn as a ring; NaN = no ring
}

// A Strip is a dot plot with a row per policy and one scale for all.
type Strip struct {
	unexplained
	ID, Title string
	Axis      string // the quantity of the scale
	Each      string // the meaning of a dot: "order"
	Limit     float64
	LimitName string
	Rows      []StripRow
}

// SVG returns the picture, empty without values.
func (p Strip) SVG() template.HTML {
	const top, rowHeight, foot = 34, 58, 58
	low, high := p.Limit, p.Limit
	var all []float64
	for _, r := range p.Rows {
		all = append(all, r.Values...)
		for _, v := range append([]float64{r.Extra}, r.Values...) {
			if !math.IsNaN(v) {
				low, high = Min(low, v), Max(high, v)
			}
		}
	}
	if math.IsNaN(low) {
		return ""
	}
	end := clipped(all, low, high, p.Limit)
	a := NewAxis(low, end, Margin, Width-Margin)
	if end = math.Inf(1); a.End() < high {
		end = a.End() // values lie beyond it
	}
	height := top + rowHeight*len(p.Rows) + foot
	bottom := height - foot
	var b strings.Builder
	Open(&b, p.ID, height, p.Title, p.about())
	a.Vertical(&b, top, bottom)
	if !math.IsNaN(p.Limit) {
		x := a.At(p.Limit)
		fmt.Fprintf(&b, `<path class="limit" d="M%.1f %dV%d`, x, top-6, top)
		for i := range p.Rows { // next to the dots, not across the names
			fmt.Fprintf(&b, `M%.1f %dV%d`, x, top+rowHeight*i+28, top+rowHeight*i+56)
		}
		b.WriteString(`"/>`)
		Label(&b, "limit", x, top-14, LimitText(p.LimitName, p.Limit))
	}
	for i, r := range p.Rows {
		y := top + rowHeight*i
		class := "rule"
		if r.Strong {
			class = "learned"
		}
		fmt.Fprintf(&b, `<g class="%s"><text class="name" x="%d" y="%d">%s<tspan class="note" dx="10">%s</tspan></text>`,
			class, Margin, y+22, Escape(r.Label), Escape(r.note()))
		fmt.Fprintf(&b, `<line class="base" x1="%d" y1="%d" x2="%d" y2="%d"/>`, Margin, y+42, Width-Margin, y+42)
		p.dots(&b, a, r, y+42, end)
		b.WriteString(`</g>`)
	}
	Label(&b, "axis", Width-Margin, height-8, p.Axis)
	b.WriteString(`</svg>`)
	return picture(&b)
}

// dots draws equal values as one dot whose area grows with their number, and a mark for those beyond
// the end of the scale.
func (p Strip) dots(b *strings.Builder, a Axis, r StripRow, y int, end float64) {
	values := slices.Clone(r.Values)
	slices.Sort(values)
	if far := len(values) - sort.SearchFloat64s(values, math.Nextafter(end, math.Inf(1))); far > 0 {
		beyond := values[len(values)-far:]
		values = values[:len(values)-far]
		fmt.Fprintf(b, `<path class="far" d="M%d %dl12 8l-12 8z"><title>%s: %d beyond the scale, up to %s</title></path>`,
			Width-Margin, y-8, Escape(r.Label), far, Short(beyond[far-1]))
	}
	if r.Extra > end {
		r.Extra = math.NaN()
	}
	for i := 0; i < len(values); {
		n := 1
		for i+n < len(values) && values[i+n] == values[i] {
			n++
		}
		each := p.Each
		if n > 1 {
			each += "s"
		}
		fmt.Fprintf(b, `<circle class="dot" cx="%.1f" cy="%d" r="%.1f"><title>%s: %s in %d %s</title></circle>`,
			a.At(values[i]), y, Min(11, 4.5*math.Sqrt(1+float64(n-1)/4)), Escape(r.Label), Short(values[i]), n, each)
		i += n
	}
	if mean := mean(r.Values); len(r.Values) > 0 && mean <= end {
		x := a.At(mean)
		fmt.Fprintf(b, `<line class="mean" x1="%.1f" y1="%d" x2="%.1f" y2="%d"><title>mean %s</title></line>`,
			x, y-12, x, y+12, Short(mean))
	}
	if !math.IsNaN(r.Extra) {
		fmt.Fprintf(b, `<circle class="ring" cx="%.1f" cy="%d" r="8"><title>%s: %s in the order of the file</title></circle>`,
			a.At(r.Extra), y, Escape(r.Label), Short(r.Extra))
	}
}

// note has the ends and the mean of the values.
func (r StripRow) note() string {
	if len(r.Values) == 0 {
		return "-"
	}
	low, high := slices.Min(r.Values), slices.Max(r.Values)
	if low == high {
		return Short(low)
	}
	return fmt.Sprintf("%s to %s, mean %s", Short(low), Short(high), Short(mean(r.Values)))
}

func mean(values []float64) float64 {
	sum := 0.
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// about describes the plot in words.
func (p Strip) about() string {
	var parts []string
	for _, r := range p.Rows {
		parts = append(parts, r.Label+": "+r.note())
	}
	s := strings.Join(parts, "; ")
	if !math.IsNaN(p.Limit) {
		s += "; " + p.LimitName + ": " + Short(p.Limit)
	}
	return s + "."
}
