package sheet

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
)

// A Range of values from a time on: a band behind the lines of a chart. High may be +Inf.
type Range struct{ Time, Low, High float64 }

// A Mark is something that happened at a time, on a line at a value. Kind is its shape and the
// style's class: scale, resize or kill.
type Mark struct {
	Time, Value float64
	Kind        string
	Count       int
}

// A Span of seconds.
type Span struct{ From, To float64 }

// plot holds the axes of a chart of time.
type plot struct {
	x, y           Axis
	start, seconds float64
	top, bottom    int
}

// at returns a position on the axis of time.
func (p *plot) at(time float64) float64 { return p.x.At((time - p.start) / p.seconds) }

// band draws the range of line i: of the points in a bucket of time the whole range.
func (p *plot) band(b *strings.Builder, i int, points []Range) {
	if len(points) < 2 {
		return
	}
	const buckets = 200
	start, end := points[0].Time, points[len(points)-1].Time
	var thinned []Range
	last := -1
	for _, r := range points {
		if math.IsNaN(r.Low) || math.IsNaN(r.High) {
			continue
		}
		if bucket := int(buckets * (r.Time - start) / (end - start)); bucket != last {
			last, thinned = bucket, append(thinned, r)
			continue
		}
		k := len(thinned) - 1
		thinned[k].Low, thinned[k].High = min(thinned[k].Low, r.Low), max(thinned[k].High, r.High)
	}
	if len(thinned) < 2 {
		return
	}
	height := func(v float64) float64 { return max(float64(p.top), p.y.At(v)) }
	fmt.Fprintf(b, `<path class="band b%d" d="M%.1f %.1f`, i, p.at(thinned[0].Time), height(thinned[0].High))
	for _, r := range thinned[1:] {
		fmt.Fprintf(b, "H%.1fV%.1f", p.at(r.Time), height(r.High))
	}
	for k, r := range slices.Backward(thinned) {
		fmt.Fprintf(b, "V%.1f", height(r.Low))
		if k > 0 {
			fmt.Fprintf(b, "H%.1f", p.at(r.Time))
		}
	}
	b.WriteString(`Z"/>`)
}

// strip draws spans as a strip at a height.
func (p *plot) strip(b *strings.Builder, spans []Span, y, height int) {
	if len(spans) == 0 {
		return
	}
	b.WriteString(`<path class="over" d="`)
	for _, s := range spans {
		from, to := max(p.x.from, p.at(s.From)), p.at(s.To)
		fmt.Fprintf(b, "M%.1f %dH%.1fv%dH%.1fz", from, y, max(to, from+1.5), height, from) // a thinner one is not seen
	}
	b.WriteString(`"/>`)
}

// shapes of marks around a point.
var shapes = map[string]string{
	"scale":  "m0 -5l5 9h-10z",
	"resize": "m0 -5l5 5l-5 5l-5 -5z",
	"kill":   "m-5 -5l10 10m0 -10l-10 10",
}

// marks draws the events. Marks of one kind that would cover each other are one.
func (p *plot) marks(b *strings.Builder, marks []Mark) {
	const apart = 9
	drawn := map[string]int{} // index in the list
	var list []Mark
	for _, m := range marks {
		if k, ok := drawn[m.Kind]; ok && p.at(m.Time)-p.at(list[k].Time) < apart {
			list[k].Count += m.Count
			continue
		}
		drawn[m.Kind] = len(list)
		list = append(list, m)
	}
	for _, m := range list {
		y := min(float64(p.bottom), max(float64(p.top), p.y.At(m.Value)))
		if math.IsNaN(m.Value) {
			y = float64(p.bottom)
		}
		what := m.Kind
		if m.Count > 1 {
			what = fmt.Sprintf("%d × %s", m.Count, m.Kind)
		}
		fmt.Fprintf(b, `<path class="mark %s" d="M%.1f %.1f%s"><title>%s</title></path>`, m.Kind, p.at(m.Time), y, shapes[m.Kind], what)
	}
}

// cursor is a line at a time, hidden until a script moves it; its data map lengths to values.
func (p *plot) cursor(b *strings.Builder, lost bool) {
	fmt.Fprintf(b, `<line class="cursor" visibility="hidden" x1="%[1]g" y1="%[2]d" x2="%[1]g" y2="%[3]d" data-left="%[1]g" data-right="%[4]g" data-span="%[5]g" data-low="%[6]g" data-high="%[7]g" data-log="%[8]t" data-lost="%[9]t"/>`,
		p.x.from, p.top, p.bottom, p.x.to, p.x.high, p.y.low, p.y.high, p.y.log, lost)
}

// A Lane has spans of one row.
type Lane struct {
	Label, About string
	Spans        []Span
}

// A LaneChart draws spans over time, a row each.
type LaneChart struct {
	unexplained
	ID, Title, About string
	From, To         float64 // seconds
	Lanes            []Lane
}

// SVG returns the picture, empty without rows or length.
func (p LaneChart) SVG() template.HTML {
	const row, left = 46, 52
	if len(p.Lanes) == 0 || !(p.To > p.From) {
		return ""
	}
	height := row*len(p.Lanes) + 52
	unit, seconds := timeUnit(p.To - p.From)
	frame := plot{x: NewAxis(0, (p.To-p.From)/seconds, left, Width-Margin), start: p.From, seconds: seconds, top: 4, bottom: height - 52}
	frame.x.low, frame.x.high = 0, (p.To-p.From)/seconds
	var b strings.Builder
	Open(&b, p.ID, height, p.Title, p.About)
	frame.x.Vertical(&b, frame.top, frame.bottom)
	for i, l := range p.Lanes {
		y := row * i
		fmt.Fprintf(&b, `<g class="lane"><title>%s</title><rect class="track" x="%d" y="%d" width="%d" height="12"/>`, Escape(l.Label+": "+l.About), left, y+28, Width-Margin-left)
		frame.strip(&b, l.Spans, y+28, 12)
		fmt.Fprintf(&b, `<text class="name" x="%d" y="%d">%s</text><text class="note" text-anchor="end" x="%d" y="%d">%s</text></g>`,
			left, y+21, Escape(l.Label), Width-Margin, y+21, Escape(l.About))
	}
	frame.cursor(&b, false)
	fmt.Fprintf(&b, `<text class="axis" text-anchor="end" x="%d" y="%d">%s</text></svg>`, Width-Margin, height-4, unit)
	return picture(&b)
}

// Spans joins the times at which something was so into spans; each began a step before.
func Spans(times []float64, step float64) []Span {
	var list []Span
	for _, t := range times {
		if k := len(list) - 1; k >= 0 && t-step <= list[k].To+step/100 {
			list[k].To = t
			continue
		}
		list = append(list, Span{t - step, t})
	}
	return slices.Clip(list)
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
