package sheet

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Dot is a value of two measures, each with half of an interval, 0 = no interval. A dot without a label is a small one.
type Dot struct {
	Label, About string
	X, Y         float64
	XErr, YErr   float64
	Strong       bool
}

// A Scatter draws one measure against another.
type Scatter struct {
	unexplained
	ID, Title, About     string
	XAxis, YAxis         string
	Dots                 []Dot
	XLimit, YLimit       float64 // NaN = no limit
	XLimitName, YLimName string
	// Low begins a logarithmic axis of Y; values below it are drawn at it. 0 = the axis is linear.
	Low float64
	// Equal gives both axes one scale, and draws the diagonal on which rivals are equal.
	Equal bool
}

// axes cover the dots and the limits.
func (p Scatter) axes(left, right, bottom, top int) (x, y Axis, ok bool) {
	low, high, least, most := p.XLimit, p.XLimit, p.YLimit, Max(p.YLimit, 10*p.Low)
	var all []float64
	for _, d := range p.Dots {
		low, high = Min(low, d.X-d.XErr), Max(high, d.X+d.XErr)
		least, most = Min(least, d.Y-d.YErr), Max(most, d.Y+d.YErr)
		all = append(all, min(d.X, d.Y), max(d.X, d.Y))
	}
	if len(p.Dots) == 0 || math.IsNaN(low) {
		return x, y, false
	}
	switch {
	case p.Equal:
		low = min(0, low, least)
		high = clipped(all, low, max(high, most), math.NaN())
		return NewAxis(low, high, left, right), NewAxis(low, high, bottom, top), true
	case p.Low > 0:
		y = NewLogAxis(p.Low, most, bottom, top)
	default:
		y = NewAxis(least, most, bottom, top)
	}
	low = max(min(0, low), low-(high-low)/20) // no dot on the edge
	return NewAxis(low, high, left, right), y, true
}

// clipped is the end of a scale to high that a few values far out must not stretch: where the
// twentieth part of the values that is largest takes more than two thirds of it, it ends before them.
func clipped(values []float64, low, high, limit float64) float64 {
	if len(values) < 20 {
		return high
	}
	slices.Sort(values)
	if most := Max(limit, values[len(values)-1-len(values)/20]); high-low > 3*(most-low) && most > low {
		return most
	}
	return high
}

// SVG returns the picture, empty without dots.
func (p Scatter) SVG() template.HTML {
	const height, top, foot, left = 416, 62, 62, 60
	x, y, ok := p.axes(left, Width-Margin, height-foot, top)
	if !ok {
		return ""
	}
	var b strings.Builder
	Open(&b, p.ID, height, p.Title, p.About)
	x.Vertical(&b, top, height-foot)
	y.Horizontal(&b, left, Width-Margin)
	var taken []box
	if p.Equal {
		fmt.Fprintf(&b, `<line class="limit" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, x.At(x.low), y.At(x.low), x.At(x.high), y.At(x.high))
	}
	if !math.IsNaN(p.XLimit) {
		at := x.At(p.XLimit)
		fmt.Fprintf(&b, `<line class="limit" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`, at, top-8, at, height-foot)
		Label(&b, "limit", at, top-14, LimitText(p.XLimitName, p.XLimit))
	}
	if !math.IsNaN(p.YLimit) {
		at := y.At(p.YLimit)
		fmt.Fprintf(&b, `<line class="limit" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`, left, at, Width-Margin, at)
		fmt.Fprintf(&b, `<text class="limit" text-anchor="end" x="%d" y="%.1f">%s</text>`, Width-Margin-2, at-6, Escape(p.YLimName))
		taken = append(taken, textBox(Width-Margin-2, at-6, p.YLimName, "end"))
	}
	for _, d := range p.Dots {
		px, py := x.At(d.X), y.At(d.Y)
		taken = append(taken, box{px - 8, py - 8, px + 8, py + 8})
	}
	for _, d := range p.Dots {
		class := "rule"
		if d.Strong {
			class = "learned"
		}
		px, py := x.At(min(d.X, x.high)), y.At(min(d.Y, y.high))
		fmt.Fprintf(&b, `<g class="%s">`, class)
		if d.X > x.high || d.Y > y.high && p.Equal {
			fmt.Fprintf(&b, `<path class="far" d="M%.1f %.1fm-7 0l7 -7l7 7l-7 7z"><title>%s, beyond the scale</title></path></g>`, px, py, Escape(d.About))
			continue
		}
		if d.XErr > 0 || d.YErr > 0 {
			fmt.Fprintf(&b, `<path class="ring" d="M%.1f %.1fH%.1fM%.1f %.1fV%.1f"/>`,
				x.At(d.X-d.XErr), py, x.At(d.X+d.XErr), px, y.At(d.Y-d.YErr), y.At(d.Y+d.YErr))
		}
		radius := 7
		if d.Label == "" {
			radius = 5
		}
		fmt.Fprintf(&b, `<circle class="dot" cx="%.1f" cy="%.1f" r="%d"><title>%s</title></circle>`, px, py, radius, Escape(d.About))
		if d.Label != "" {
			tx, ty, anchor := place(&taken, left, px, py, d.Label)
			fmt.Fprintf(&b, `<text class="name" text-anchor="%s" x="%.1f" y="%.1f">%s</text>`, anchor, tx, ty, Escape(d.Label))
		}
		b.WriteString(`</g>`)
	}
	fmt.Fprintf(&b, `<text class="axis" text-anchor="end" x="%d" y="%d">%s</text>`, Width-Margin, height-8, Escape(p.XAxis))
	fmt.Fprintf(&b, `<text class="axis" x="%d" y="18">%s</text>`, 4, Escape(p.YAxis))
	b.WriteString(`</svg>`)
	return picture(&b)
}

type box struct{ left, top, right, bottom float64 }

func (a box) overlap(b box) float64 {
	return max(0, min(a.right, b.right)-max(a.left, b.left)) * max(0, min(a.bottom, b.bottom)-max(a.top, b.top))
}

// textBox estimates the area of a text in the larger letters of a narrow screen.
func textBox(x, y float64, text, anchor string) box {
	width := 11.5 * float64(utf8.RuneCountInString(text))
	switch anchor {
	case "end":
		x -= width
	case "middle":
		x -= width / 2
	}
	return box{x, y - 17, x + width, y + 5}
}

// place finds the position at which the name of a dot covers the least of the drawing,
// inside of the plot, which begins at left.
func place(taken *[]box, left, x, y float64, text string) (tx, ty float64, anchor string) {
	var best box
	least := math.Inf(1)
	for _, at := range []struct {
		x, y   float64
		anchor string
	}{
		{x + 12, y + 6, "start"},
		{x - 12, y + 6, "end"},
		{x, y - 14, "middle"},
		{x, y + 28, "middle"},
		{x + 10, y - 12, "start"},
		{x + 10, y + 25, "start"},
		{x - 10, y - 12, "end"},
		{x - 10, y + 25, "end"},
	} {
		b := textBox(at.x, at.y, text, at.anchor)
		covered := 3 * (max(0, left-b.left) + max(0, b.right-Width)) * 22
		for _, t := range *taken {
			covered += b.overlap(t)
		}
		if covered < least {
			least, best, tx, ty, anchor = covered, b, at.x, at.y, at.anchor
		}
	}
	*taken = append(*taken, best)
	return tx, ty, anchor
}
