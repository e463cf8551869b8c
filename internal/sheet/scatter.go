package sheet

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"unicode/utf8"
)

// A Dot is a value of two measures, each with half of an interval, 0 = no interval.
type Dot struct {
	Label, About string
	X, Y         float64
	XErr, YErr   float64
	Strong       bool
}

// A Scatter draws one measure against another. Y has a logarithmic axis from Low up;
// values below Low are drawn at it.
type Scatter struct {
	ID, Title, About     string
	XAxis, YAxis         string
	Dots                 []Dot
	XLimit, YLimit       float64 // NaN = no limit
	XLimitName, YLimName string
	Low                  float64
}

// SVG returns the picture, empty without dots.
func (p Scatter) SVG() template.HTML {
	const height, top, foot, left = 416, 62, 62, 60
	low, high, most := p.XLimit, p.XLimit, Max(p.YLimit, 10*p.Low)
	for _, d := range p.Dots {
		low, high, most = Min(low, d.X-d.XErr), Max(high, d.X+d.XErr), Max(most, d.Y+d.YErr)
	}
	if len(p.Dots) == 0 || math.IsNaN(low) {
		return ""
	}
	low = max(min(0, low), low-(high-low)/20) // no dot on the edge
	x, y := NewAxis(low, high, left, Width-Margin), NewLogAxis(p.Low, most, height-foot, top)
	var b strings.Builder
	Open(&b, p.ID, height, p.Title, p.About)
	x.Vertical(&b, top, height-foot)
	y.Horizontal(&b, left, Width-Margin)
	var taken []box
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
		px, py := x.At(d.X), y.At(d.Y)
		fmt.Fprintf(&b, `<g class="%s">`, class)
		if d.XErr > 0 || d.YErr > 0 {
			fmt.Fprintf(&b, `<path class="ring" d="M%.1f %.1fH%.1fM%.1f %.1fV%.1f"/>`,
				x.At(d.X-d.XErr), py, x.At(d.X+d.XErr), px, y.At(d.Y-d.YErr), y.At(d.Y+d.YErr))
		}
		fmt.Fprintf(&b, `<circle class="dot" cx="%.1f" cy="%.1f" r="7"><title>%s</title></circle>`, px, py, Escape(d.About))
		tx, ty, anchor := place(&taken, left, px, py, d.Label)
		fmt.Fprintf(&b, `<text class="name" text-anchor="%s" x="%.1f" y="%.1f">%s</text></g>`, anchor, tx, ty, Escape(d.Label))
	}
	fmt.Fprintf(&b, `<text class="axis" text-anchor="end" x="%d" y="%d">%s</text>`, Width-Margin, height-8, Escape(p.XAxis))
	fmt.Fprintf(&b, `<text class="axis" x="%d" y="18">%s</text>`, 4, Escape(p.YAxis))
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) //nolint:gosec // every text went through Escape
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
