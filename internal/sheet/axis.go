package sheet

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// Plots are SVG inside the page. Lengths are in units of a view box that is
// Width wide. The page's style makes letters larger on a narrow screen, and rows
// leave room for them.
const (
	Width  = 640
	Margin = 14
)

// An Axis maps values between low and high to lengths between from and to.
type Axis struct {
	low, high, step float64
	from, to        float64
	log             bool // low and high are powers of ten, or halves or fifths of one
}

// NewAxis covers a range with about six round steps.
func NewAxis(low, high float64, from, to int) Axis {
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
	return Axis{math.Floor(low/step) * step, math.Ceil(high/step) * step, step, float64(from), float64(to), false}
}

// NewLogAxis covers a range above 0 in equal ratios.
func NewLogAxis(low, high float64, from, to int) Axis {
	if !(low > 0) {
		panic(fmt.Sprintf("sheet: a logarithmic axis from %v", low))
	}
	return Axis{low: roundDown(low), high: -roundDown(-Max(high, 2*low)), from: float64(from), to: float64(to), log: true}
}

// End is the largest value on the axis.
func (a Axis) End() float64 { return a.high }

// Step is the distance between ticks.
func (a Axis) Step() float64 { return a.step }

// roundDown returns the largest of 1, 2, 5, 10, … that is not above v; for −v it returns
// minus the smallest that is not below v.
func roundDown(v float64) float64 {
	size := math.Abs(v)
	decade := math.Pow(10, math.Floor(math.Log10(size)+1e-9))
	best := math.NaN()
	for _, k := range []float64{1, 2, 5, 10} {
		switch n := k * decade; {
		case v > 0 && n <= size*(1+1e-9):
			best = n
		case v < 0 && n >= size*(1-1e-9) && math.IsNaN(best):
			best = -n
		}
	}
	return best
}

// At returns the position of a value. Values outside of a logarithmic axis are at its ends.
func (a Axis) At(v float64) float64 {
	if a.log {
		v = math.Log(min(a.high, max(a.low, v)) / a.low)
		return a.from + v/math.Log(a.high/a.low)*(a.to-a.from)
	}
	return a.from + (v-a.low)/(a.high-a.low)*(a.to-a.from)
}

// ticks are the round values on the axis.
func (a Axis) ticks() []float64 {
	var list []float64
	if a.log {
		decades := math.Log10(a.high / a.low)
		for v := a.low; v < a.high*1.001; v = -roundDown(-v * 1.001) {
			if d := math.Log10(v); decades < 3 || math.Abs(d-math.Round(d)) < 1e-6 {
				list = append(list, v)
			}
		}
		return list
	}
	for i := 0; ; i++ {
		v := a.low + float64(i)*a.step
		if v > a.high+a.step/1000 {
			return list
		}
		list = append(list, v)
	}
}

// texts are the ticks as people read them.
func (a Axis) texts() []string {
	var list []string
	digits := 0 // all those of a tick: rounded ones would be equal
	for s := a.step; digits < 6 && math.Abs(s-math.Round(s)) > 1e-6; digits++ {
		s *= 10
	}
	for _, v := range a.ticks() {
		if a.log {
			list = append(list, strconv.FormatFloat(v, 'f', max(0, -int(math.Floor(math.Log10(v)+1e-9))), 64))
		} else {
			list = append(list, Figure(v, digits, false))
		}
	}
	return list
}

// Vertical draws the lines and ticks of an axis of x.
func (a Axis) Vertical(b *strings.Builder, top, bottom int) {
	texts := a.texts()
	for i, v := range a.ticks() {
		x := a.At(v)
		fmt.Fprintf(b, `<line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`, x, top, x, bottom)
		fmt.Fprintf(b, `<text class="tick" text-anchor="middle" x="%.1f" y="%d">%s</text>`, x, bottom+23, texts[i])
	}
}

// Horizontal draws the lines and ticks of an axis of y.
func (a Axis) Horizontal(b *strings.Builder, left, right int) {
	texts := a.texts()
	for i, v := range a.ticks() {
		y := a.At(v)
		fmt.Fprintf(b, `<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`, left, y, right, y)
		fmt.Fprintf(b, `<text class="tick" text-anchor="end" x="%d" y="%.1f">%s</text>`, left-6, y+5, texts[i])
	}
}

// Label centres a text on x; near the edges it is aligned inwards.
func Label(b *strings.Builder, class string, x float64, y int, text string) {
	anchor := "middle"
	if x < 60 {
		anchor = "start"
	} else if x > Width-60 {
		anchor = "end"
	}
	fmt.Fprintf(b, `<text class="%s" text-anchor="%s" x="%.1f" y="%d">%s</text>`, class, anchor, x, y, Escape(text))
}

// Open begins an SVG of a height with its title and description.
func Open(b *strings.Builder, id string, height int, title, about string) {
	fmt.Fprintf(b, `<svg viewBox="0 0 %d %d" role="img" aria-labelledby="%s-title %s-desc"><title id="%s-title">%s</title><desc id="%s-desc">%s</desc>`,
		Width, height, id, id, id, Escape(title), id, Escape(about))
}

// LimitText names a limit with its value, unless the value is 0, where the scale begins.
func LimitText(name string, limit float64) string {
	if limit == 0 {
		return name
	}
	return name + " " + Short(limit)
}

// Escape makes text safe inside of an element or an attribute.
func Escape(s string) string { return template.HTMLEscapeString(s) }

// Min is the smaller of two numbers; NaN = no number.
func Min(a, b float64) float64 {
	if math.IsNaN(a) || b < a {
		return b
	}
	return a
}

// Max is the larger of two numbers; NaN = no number.
func Max(a, b float64) float64 {
	if math.IsNaN(a) || b > a {
		return b
	}
	return a
}

// picture is the SVG of a builder. Whoever writes to it escapes all text.
func picture(b *strings.Builder) template.HTML {
	return template.HTML(b.String()) //nolint:gosec // escaped
}
