package sheet

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
)

// A Pair is a value of two rivals, such as two policies on one trace.
type Pair struct {
	Label string
	X, Y  float64
}

// A Versus draws pairs on two axes of one scale. On the diagonal the rivals are equal; below it Y is the smaller.
type Versus struct {
	ID, Title, About string
	XAxis, YAxis     string
	Pairs            []Pair
}

// SVG returns the picture, empty without pairs. The largest twentieth of the pairs is drawn at the edge where it would flatten
// the rest.
func (p Versus) SVG() template.HTML {
	const height, top, foot, left = 416, 40, 62, 60
	var values []float64
	for _, q := range p.Pairs {
		if !math.IsNaN(q.X) && !math.IsNaN(q.Y) {
			values = append(values, max(q.X, q.Y), min(q.X, q.Y))
		}
	}
	if len(values) == 0 {
		return ""
	}
	slices.Sort(values)
	low, high := min(0, values[0]), values[len(values)-1]
	if most := values[len(values)-1-len(values)/20]; len(values) >= 20 && high-low > 3*(most-low) && most > low {
		high = most
	}
	x, y := NewAxis(low, high, left, Width-Margin), NewAxis(low, high, height-foot, top)
	var b strings.Builder
	Open(&b, p.ID, height, p.Title, p.About)
	y.Horizontal(&b, left, Width-Margin)
	x.Vertical(&b, top, height-foot)
	fmt.Fprintf(&b, `<line class="limit" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, x.At(x.low), y.At(x.low), x.At(x.high), y.At(x.high))
	b.WriteString(`<g class="learned">`)
	for _, q := range p.Pairs {
		if math.IsNaN(q.X) || math.IsNaN(q.Y) {
			continue
		}
		at := Escape(fmt.Sprintf("%s: %s against %s", q.Label, Short(q.Y), Short(q.X)))
		px, py := x.At(min(q.X, x.high)), y.At(min(q.Y, y.high))
		if q.X > x.high || q.Y > y.high {
			fmt.Fprintf(&b, `<path class="far" d="M%.1f %.1fm-7 0l7 -7l7 7l-7 7z"><title>%s, beyond the scale</title></path>`, px, py, at)
			continue
		}
		fmt.Fprintf(&b, `<circle class="dot" cx="%.1f" cy="%.1f" r="6"><title>%s</title></circle>`, px, py, at)
	}
	b.WriteString(`</g>`)
	fmt.Fprintf(&b, `<text class="axis" text-anchor="end" x="%d" y="%d">%s</text>`, Width-Margin, height-8, Escape(p.XAxis))
	fmt.Fprintf(&b, `<text class="axis" x="%d" y="18">%s</text>`, 4, Escape(p.YAxis))
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) //nolint:gosec // every text went through Escape
}

// Between is the range between two step functions, from the first moment that both have.
func Between(a, b []Point) (list []Range) {
	i, k := -1, -1
	for i+1 < len(a) || k+1 < len(b) {
		at := math.Inf(1)
		if i+1 < len(a) {
			at = a[i+1].Time
		}
		if k+1 < len(b) {
			at = min(at, b[k+1].Time)
		}
		for i+1 < len(a) && a[i+1].Time <= at {
			i++
		}
		for k+1 < len(b) && b[k+1].Time <= at {
			k++
		}
		if i >= 0 && k >= 0 {
			list = append(list, Range{at, min(a[i].Value, b[k].Value), max(a[i].Value, b[k].Value)})
		}
	}
	return list
}
