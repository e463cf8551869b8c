package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// A stripRow is the distribution of one policy's values: a dot for each.
type stripRow struct {
	label, note string
	learned     bool
	values      []float64
	extra       float64 // order of the file, drawn as a ring; NaN = no ring
}

// A strip is a dot plot with a row per policy and one scale for all.
type strip struct {
	id, title, about string
	axis             string // the quantity of the scale
	each             string // the meaning of a dot: "order"
	limit            float64
	limitName        string
	rows             []stripRow
}

// clipped is the end of a scale to high that a few values far out must not stretch: where the
// twentieth part of the values that is largest takes more than two thirds of it, it ends before them.
func (p strip) clipped(low, high float64) float64 {
	var all []float64
	for _, r := range p.rows {
		all = append(all, r.values...)
	}
	if len(all) < 20 {
		return high
	}
	slices.Sort(all)
	most := sheet.Max(p.limit, all[len(all)-1-len(all)/20])
	if high-low > 3*(most-low) && most > low {
		return most
	}
	return high
}

func (p strip) svg() template.HTML {
	const top, rowHeight, foot = 34, 58, 58
	low, high := p.limit, p.limit
	for _, r := range p.rows {
		for _, v := range append([]float64{r.extra}, r.values...) {
			if !math.IsNaN(v) {
				low, high = sheet.Min(low, v), sheet.Max(high, v)
			}
		}
	}
	if math.IsNaN(low) {
		return ""
	}
	end := p.clipped(low, high)
	a := sheet.NewAxis(low, end, sheet.Margin, sheet.Width-sheet.Margin)
	if end = math.Inf(1); a.End() < high {
		end = a.End() // values lie beyond it
	}
	height := top + rowHeight*len(p.rows) + foot
	bottom := height - foot
	var b strings.Builder
	sheet.Open(&b, p.id, height, p.title, p.about)
	a.Vertical(&b, top, bottom)
	if !math.IsNaN(p.limit) {
		x := a.At(p.limit)
		fmt.Fprintf(&b, `<path class="limit" d="M%.1f %dV%d`, x, top-6, top)
		for i := range p.rows { // next to the dots, not across the names
			fmt.Fprintf(&b, `M%.1f %dV%d`, x, top+rowHeight*i+28, top+rowHeight*i+56)
		}
		b.WriteString(`"/>`)
		sheet.Label(&b, "limit", x, top-14, sheet.LimitText(p.limitName, p.limit))
	}
	for i, r := range p.rows {
		y := top + rowHeight*i
		class := "rule"
		if r.learned {
			class = "learned"
		}
		fmt.Fprintf(&b, `<g class="%s"><text class="name" x="%d" y="%d">%s<tspan class="note" dx="10">%s</tspan></text>`,
			class, sheet.Margin, y+22, sheet.Escape(r.label), sheet.Escape(r.note))
		fmt.Fprintf(&b, `<line class="base" x1="%d" y1="%d" x2="%d" y2="%d"/>`, sheet.Margin, y+42, sheet.Width-sheet.Margin, y+42)
		p.dots(&b, a, r, y+42, end)
		b.WriteString(`</g>`)
	}
	sheet.Label(&b, "axis", sheet.Width-sheet.Margin, height-8, p.axis)
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) //nolint:gosec // every text went through escape
}

// dots draws equal values as one dot whose area grows with their number, and a mark for those beyond
// the end of the scale.
func (p strip) dots(b *strings.Builder, a sheet.Axis, r stripRow, y int, end float64) {
	values := slices.Clone(r.values)
	slices.Sort(values)
	if far := len(values) - sort.SearchFloat64s(values, math.Nextafter(end, math.Inf(1))); far > 0 {
		beyond := values[len(values)-far:]
		values = values[:len(values)-far]
		fmt.Fprintf(b, `<path class="far" d="M%d %dl12 8l-12 8z"><title>%s: %d beyond the scale, up to %s</title></path>`,
			sheet.Width-sheet.Margin, y-8, sheet.Escape(r.label), far, sheet.Short(beyond[far-1]))
	}
	if r.extra > end {
		r.extra = nothing
	}
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
			a.At(values[i]), y, sheet.Min(11, 4.5*math.Sqrt(1+float64(n-1)/4)), sheet.Escape(r.label), sheet.Short(values[i]), n, each)
		i += n
	}
	if mean := estimate(r.values).Mean; len(r.values) > 0 && mean <= end {
		x := a.At(mean)
		fmt.Fprintf(b, `<line class="mean" x1="%.1f" y1="%d" x2="%.1f" y2="%d"><title>mean %s</title></line>`,
			x, y-12, x, y+12, sheet.Short(mean))
	}
	if !math.IsNaN(r.extra) {
		fmt.Fprintf(b, `<circle class="ring" cx="%.1f" cy="%d" r="8"><title>%s: %s in the order of the file</title></circle>`,
			a.At(r.extra), y, sheet.Escape(r.label), sheet.Short(r.extra))
	}
}
