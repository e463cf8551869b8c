package sheet

import (
	"fmt"
	"html/template"
	"math"
	"strings"
)

// A Point of a line: a value from a time on, in seconds.
type Point struct{ Time, Value float64 }

// A Line is a time series. NaN interrupts it; +Inf is drawn at the upper edge. Band is behind it.
type Line struct {
	Label  string
	Points []Point
	Band   []Range
}

// A LineChart draws values over time. Lines differ by colour and by dashes.
type LineChart struct {
	ID, Title string
	Axis      string // name of the value
	Lines     []Line
	Limit     float64 // NaN = no limit
	LimitName string
	Limits    []Point // a limit that changes, in place of Limit
	// Low and High widen the scale, so that several charts have the same one.
	Low, High float64
	Log       bool   // values below Low are drawn there
	Over      []Span // drawn as a strip at the foot
	Marks     []Mark
	Unit      string // the unit of the times, in place of seconds and their multiples
}

// SVG returns the picture, empty where the lines have no length.
func (p LineChart) SVG() template.HTML {
	const height, top, foot, left = 358, 40, 58, 52
	start, end, low, most := math.Inf(1), math.Inf(-1), p.Low, Max(p.High, p.Limit)
	var ends []string
	lost := false
	for _, l := range p.Lines {
		for _, s := range l.Points {
			start, end = Min(start, s.Time), Max(end, s.Time)
			if math.IsInf(s.Value, 1) {
				lost = true
				continue
			}
			most = Max(most, s.Value)
		}
		for _, r := range l.Band {
			if !math.IsInf(r.High, 1) {
				most = Max(most, r.High)
			}
		}
		if n := len(l.Points); n > 0 {
			last := "lost"
			if v := l.Points[n-1].Value; !math.IsInf(v, 1) {
				last = Short(v)
			}
			ends = append(ends, l.Label+" ends with "+last)
		}
	}
	if !(end > start) {
		return ""
	}
	for _, s := range p.Limits {
		most = Max(most, s.Value)
	}
	unit, seconds := timeUnit(end - start)
	if p.Unit != "" {
		unit, seconds = p.Unit, 1
	}
	x := NewAxis(0, (end-start)/seconds, left, Width-Margin)
	x.low, x.high = 0, (end-start)/seconds // a line need not end at a round number
	y := NewAxis(low, most, height-foot, top)
	if p.Log {
		y = NewLogAxis(low, most, height-foot, top)
	}
	var b strings.Builder
	Open(&b, p.ID, height, p.Title, strings.Join(ends, "; ")+".")
	y.Horizontal(&b, left, Width-Margin)
	x.Vertical(&b, top, height-foot)
	frame := plot{x, y, start, seconds, top, height - foot}
	for i, l := range p.Lines {
		frame.band(&b, i, l.Band)
	}
	for i, l := range p.Lines {
		fmt.Fprintf(&b, `<path class="line p%d" d="%s"><title>%s</title></path>`,
			i, steps(thin(l.Points, start, end), start, seconds, x, y), Escape(l.Label))
	}
	if !math.IsNaN(p.Limit) {
		at := y.At(p.Limit)
		fmt.Fprintf(&b, `<line class="limit" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`, left, at, Width-Margin, at)
		fmt.Fprintf(&b, `<text class="limit" text-anchor="end" x="%d" y="18">%s</text>`, Width-Margin, Escape(LimitText(p.LimitName, p.Limit)))
	}
	if n := len(p.Limits); n > 0 {
		fmt.Fprintf(&b, `<path class="limit" d="%s"><title>%s</title></path>`, steps(thin(p.Limits, start, end), start, seconds, x, y), Escape(p.LimitName))
		fmt.Fprintf(&b, `<text class="limit" text-anchor="end" x="%d" y="18">%s</text>`, Width-Margin, Escape(LimitText(p.LimitName, p.Limits[n-1].Value)))
	}
	frame.strip(&b, p.Over, height-foot-7, 7)
	frame.marks(&b, p.Marks)
	frame.cursor(&b, lost)
	fmt.Fprintf(&b, `<text class="axis" text-anchor="end" x="%d" y="%d">%s</text>`, Width-Margin, height-8, unit)
	fmt.Fprintf(&b, `<text class="axis" x="%d" y="18">%s</text>`, 4, Escape(p.Axis))
	b.WriteString(`</svg>`)
	return picture(&b)
}

// Legend names the lines, where there are several, and the marks.
func (p LineChart) Legend() template.HTML {
	var b strings.Builder
	if len(p.Lines) > 1 {
		for i, l := range p.Lines {
			fmt.Fprintf(&b, `<li><svg viewBox="0 0 32 10"><path class="line p%d" d="M0 5H32"/></svg>%s</li>`, i, Escape(l.Label))
		}
	}
	seen := map[string]bool{}
	for _, m := range p.Marks {
		if !seen[m.Kind] {
			seen[m.Kind] = true
			fmt.Fprintf(&b, `<li><svg viewBox="0 0 14 14"><path class="mark %s" d="M7 7%s"/></svg>%s</li>`, m.Kind, shapes[m.Kind], m.Kind)
		}
	}
	return picture(&b)
}

// unexplained is the legend of a plot that names its parts itself.
type unexplained struct{}

// Legend is empty.
func (unexplained) Legend() template.HTML { return "" }

// thin keeps at most one point per bucket of time, the one with the largest value,
// so that peaks stay visible.
func thin(points []Point, start, end float64) []Point {
	const buckets = 300
	var out []Point
	last := -1
	for i, s := range points {
		if i+1 < len(points) && points[i+1].Time <= start {
			continue // replaced before the plot begins
		}
		s.Time = max(s.Time, start)
		bucket := int(buckets * (s.Time - start) / (end - start))
		switch {
		case bucket != last || i == len(points)-1:
			out = append(out, s)
			last = bucket
		case !(s.Value <= out[len(out)-1].Value):
			if !math.IsNaN(s.Value) {
				out[len(out)-1] = s
			}
		}
	}
	return out
}

// steps returns a path that keeps each value until the next point.
func steps(points []Point, start, seconds float64, x, y Axis) string {
	var b strings.Builder
	last := "" // height of the line; "" = no line
	for i, s := range points {
		px := x.At((s.Time - start) / seconds)
		height := ""
		if !math.IsNaN(s.Value) {
			height = fmt.Sprintf("%.1f", y.At(s.Value))
		}
		switch {
		case height == last && (height == "" || i < len(points)-1):
			continue
		case last == "" && height != "":
			fmt.Fprintf(&b, "M%.1f %s", px, height)
		case last == height || height == "":
			fmt.Fprintf(&b, "H%.1f", px)
		default:
			fmt.Fprintf(&b, "H%.1fV%s", px, height)
		}
		last = height
	}
	return b.String()
}

// timeUnit returns the unit in which a span of seconds is shown.
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
