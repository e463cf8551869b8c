package page

import (
	_ "embed"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/internal/sheet"
	"github.com/sigma-scheduler/sigma/plugins/pilot"
)

// Bounds of a history: a year of days, and the newest marks and lives.
const (
	keptDays  = 366
	keptMarks = 500
	keptLives = 100
)

// A History holds the data of a page.
type History struct {
	Days  []Day  `json:"days"`
	Marks []Mark `json:"marks"`
	Lives []Live `json:"lives"`
	// Currency is the currency of the costs; "" = units without a meaning of their
	// own.
	Currency string `json:"currency,omitempty"`
}

// A Day has the cost of the nodes in use, in the mean of the day, an hour.
type Day struct {
	Start   time.Time `json:"start"`
	Current float64   `json:"current"` // as recorded
	Without float64   `json:"without"` // if the rule that replaces the scheduler's own scores had decided all along
	Bound   float64   `json:"bound"`   // no placement costs less
}

// A Mark is a step of the loop.
type Mark struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// A Live is a policy that was active.
type Live struct {
	Digest   string        `json:"digest"`
	Since    time.Time     `json:"since"`
	Promised *pilot.Saving `json:"promised,omitempty"`
	Realised *pilot.Saving `json:"realised,omitempty"`
	Days     int           `json:"days,omitempty"` // that Realised is from
}

// AddDay takes a day, unless it is there. One that was counted keeps its figures.
func (h *History) AddDay(d Day) {
	i, ok := slices.BinarySearchFunc(h.Days, d, func(a, b Day) int { return a.Start.Compare(b.Start) })
	if ok || math.IsNaN(d.Current+d.Without+d.Bound) {
		return
	}
	h.Days = slices.Insert(h.Days, i, d)
	h.Days = h.Days[max(0, len(h.Days)-keptDays):]
}

// Has reports whether a day is there.
func (h *History) Has(start time.Time) bool {
	return slices.ContainsFunc(h.Days, func(d Day) bool { return d.Start.Equal(start) })
}

// Tell adds a step of the loop.
func (h *History) Tell(m Mark) {
	h.Marks = append(h.Marks, m)
	h.Marks = slices.Clone(h.Marks[max(0, len(h.Marks)-keptMarks):])
}

// Note adds the promised and the realised saving of an active policy.
func (h *History) Note(l Live) {
	if l.Digest == "" {
		return
	}
	if n := len(h.Lives); n > 0 && h.Lives[n-1].Digest == l.Digest && h.Lives[n-1].Since.Equal(l.Since) {
		if l.Promised == nil { // forgotten meanwhile
			l.Promised = h.Lives[n-1].Promised
		}
		h.Lives[n-1] = l
		return
	}
	h.Lives = append(h.Lives, l)
	h.Lives = slices.Clone(h.Lives[max(0, len(h.Lives)-keptLives):])
}

//go:embed page.html
var pageText string

var pageTemplate = sheet.Template(pageText)

type content struct {
	Title, Summary string
	Facts          []sheet.Definition
	Charts         []sheet.Chart
	Tables         []table
	Data           sheet.Data
}

type table struct {
	Caption string
	Table   sheet.Table
}

// HTML writes the page of a pilot.
func (h *History) HTML(w io.Writer, name, policy string) error {
	p := content{
		Title: "What the pilot " + name + " came to", Summary: h.summary(),
		Facts: []sheet.Definition{{Term: "Policy", Text: policy}, {Term: "Cost", Text: h.unit() + " an hour, of the nodes in use"}},
	}
	if n := len(h.Days); n > 0 {
		p.Facts = append(p.Facts, sheet.Definition{Term: "Days", Text: fmt.Sprintf("%d, from %s to %s", n, h.Days[0].Start.Format(time.DateOnly), h.Days[n-1].Start.Format(time.DateOnly))})
		p.Tables = append(p.Tables, h.weeks())
		p.Charts = h.charts()
	}
	if len(h.Lives) > 0 {
		p.Tables = append(p.Tables, h.lives())
	}
	if len(h.Marks) > 0 {
		p.Tables = append(p.Tables, h.marks())
	}
	p.Data = h.data(name, p.Summary)
	if err := pageTemplate.Execute(w, p); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

func (h *History) unit() string {
	if h.Currency == "" {
		return "price units"
	}
	return h.Currency
}

// A week is the mean of its days; it begins on Monday.
type week struct {
	start time.Time
	days  int
	Day   // means
}

func (h *History) byWeek() (list []week) {
	for _, d := range h.Days {
		monday := d.Start.AddDate(0, 0, -(int(d.Start.Weekday())+6)%7)
		if n := len(list); n == 0 || !list[n-1].start.Equal(monday) {
			list = append(list, week{start: monday})
		}
		w := &list[len(list)-1]
		n := float64(w.days)
		w.days++
		w.Current, w.Without, w.Bound = (n*w.Current+d.Current)/(n+1), (n*w.Without+d.Without)/(n+1), (n*w.Bound+d.Bound)/(n+1)
	}
	return list
}

// summary is the first sentence: the newest week.
func (h *History) summary() string {
	weeks := h.byWeek()
	if len(weeks) == 0 {
		return "No whole day is recorded yet."
	}
	w := weeks[len(weeks)-1]
	days := fmt.Sprintf("%d days", w.days)
	if w.days == 1 {
		days = "1 day"
	}
	return fmt.Sprintf("In the week from %s (%s) the nodes in use cost %s %s an hour, where the scheduler without a policy would have needed %s and no placement can need less than %s.",
		w.start.Format(time.DateOnly), days, sheet.Short(w.Current), h.unit(), sheet.Short(w.Without), sheet.Short(w.Bound))
}

func (h *History) weeks() table {
	t := sheet.Table{Heads: []sheet.Cell{
		{Text: "week from", Words: true, About: "Monday, in UTC"},
		{Text: "days", About: "whole days that were recorded without a gap"},
		{Text: "current", About: "cost an hour of the nodes in use"},
		{Text: "without", About: "the same, if the rule that stands for the scheduler's own scores had decided all along"},
		{Text: "saved %", About: "by how much current is below without"},
		{Text: "bound", About: "no placement costs less: sums of what the pods ask for"},
		{Text: "above bound %", About: "by how much current is above the bound"},
	}}
	for _, w := range h.byWeek() {
		t.Rows = append(t.Rows, sheet.Row{Cells: []sheet.Cell{
			{Text: w.start.Format(time.DateOnly), Words: true},
			{Text: fmt.Sprint(w.days)},
			{Text: sheet.Short(w.Current)},
			{Text: sheet.Short(w.Without)},
			{Text: percent(1 - w.Current/w.Without)},
			{Text: sheet.Short(w.Bound)},
			{Text: percent(w.Current/w.Bound - 1)},
		}})
	}
	return table{"Week by week, means of their days", t}
}

// percent is a share in percent; a hyphen if it is not finite.
func percent(share float64) string {
	if math.IsInf(share, 0) {
		share = math.NaN()
	}
	return sheet.Figure(100*share, 1, false)
}

func (h *History) charts() []sheet.Chart {
	first := h.Days[0].Start
	line := func(label string, of func(Day) float64) sheet.Line {
		l := sheet.Line{Label: label}
		var last time.Time
		for _, d := range h.Days {
			at := d.Start.Sub(first).Seconds()
			if !last.IsZero() && !last.Equal(d.Start) {
				l.Points = append(l.Points, sheet.Point{Time: last.Sub(first).Seconds(), Value: math.NaN()}) // a gap
			}
			l.Points = append(l.Points, sheet.Point{Time: at, Value: of(d)})
			last = d.Start.AddDate(0, 0, 1)
		}
		l.Points = append(l.Points, sheet.Point{Time: last.Sub(first).Seconds(), Value: of(h.Days[len(h.Days)-1])})
		return l
	}
	current := line("current", func(d Day) float64 { return d.Current })
	chart := sheet.LineChart{ID: "weeks", Title: "Cost of the nodes in use, day by day", Axis: h.unit() + " an hour", Limit: math.NaN(), Lines: []sheet.Line{
		current, line("without", func(d Day) float64 { return d.Without }), line("bound", func(d Day) float64 { return d.Bound }),
	}}
	svg := chart.SVG()
	if svg == "" {
		return nil
	}
	return []sheet.Chart{{SVG: svg, Legend: []string{"current", "without", "bound"}, Caption: "Means of whole days of UTC from " + first.Format(time.DateOnly) + " on. Days with a gap in the record are missing. What was decided is below."}}
}

func (h *History) lives() table {
	t := sheet.Table{Heads: []sheet.Cell{
		{Text: "in force since", Words: true},
		{Text: "policy", Words: true, About: "digest"},
		{Text: "promised %", About: "before it went to the cluster: a saving against the policy before, between the two ends with a probability of 90 %"},
		{Text: "came %", About: "by a replay of the whole days since under it and under the one before"},
		{Text: "days", About: "that it is from"},
		{Text: "held", Words: true, About: "whether what came lies within what was promised"},
	}}
	for _, l := range slices.Backward(h.Lives) {
		held := ""
		if l.Promised != nil && l.Realised != nil {
			if held = "no"; l.Realised.Mean >= l.Promised.Low && l.Realised.Mean <= l.Promised.High {
				held = "yes"
			}
		}
		days := ""
		if l.Days > 0 {
			days = fmt.Sprint(l.Days)
		}
		t.Rows = append(t.Rows, sheet.Row{Cells: []sheet.Cell{
			{Text: l.Since.UTC().Format("2006-01-02 15:04"), Words: true},
			{Text: l.Digest[:min(len(l.Digest), 15)], Words: true},
			{Text: saving(l.Promised)},
			{Text: saving(l.Realised)},
			{Text: days},
			{Text: held, Words: true},
		}})
	}
	return table{"Promised against what came, the newest first", t}
}

func saving(s *pilot.Saving) string {
	if s == nil {
		return ""
	}
	return fmt.Sprintf("%.1f (%.1f to %.1f)", s.Mean, s.Low, s.High)
}

func (h *History) marks() table {
	t := sheet.Table{Heads: []sheet.Cell{{Text: "at", Words: true, About: "in UTC"}, {Text: "what", Words: true}}}
	for _, m := range slices.Backward(h.Marks) {
		t.Rows = append(t.Rows, sheet.Row{Cells: []sheet.Cell{{Text: m.At.UTC().Format("2006-01-02 15:04"), Words: true}, {Text: m.Text, Words: true}}})
	}
	return table{"What the loop decided, the newest first", t}
}

func (h *History) data(name, verdict string) sheet.Data {
	part := sheet.DataPart{Name: name, Inputs: map[string]string{}, Rows: []sheet.DataRow{}}
	for _, of := range []struct {
		name  string
		value func(Day) float64
	}{
		{"current", func(d Day) float64 { return d.Current }}, {"without", func(d Day) float64 { return d.Without }}, {"bound", func(d Day) float64 { return d.Bound }},
	} {
		figure := sheet.DataFigure{Name: "cost an hour", Runs: []sheet.Number{}}
		for _, d := range h.Days {
			figure.Runs = append(figure.Runs, sheet.Number(of.value(d)))
		}
		part.Rows = append(part.Rows, sheet.DataRow{Name: of.name, Figures: []sheet.DataFigure{figure}})
	}
	if n := len(h.Days); n > 0 {
		part.Inputs["days"] = h.Days[0].Start.Format(time.DateOnly) + " to " + h.Days[n-1].Start.Format(time.DateOnly)
	}
	return sheet.Data{Kind: "sigma pilot report", Version: sheet.DataVersion, Verdict: verdict, Parts: []sheet.DataPart{part}}
}
