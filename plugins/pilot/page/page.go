package page

import (
	"cmp"
	"fmt"
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

// Report describes the results of a pilot.
func (h *History) Report(name, policy string) *sheet.Report {
	r := &sheet.Report{
		Title: "What the pilot " + name + " came to", Summary: h.summary(), Reading: reading,
		Facts: []sheet.Definition{{Term: "Policy", Text: policy}, {Term: "Cost", Text: h.unit() + " an hour, of the nodes in use"}},
	}
	if n := len(h.Days); n > 0 {
		r.Facts = append(r.Facts, sheet.Definition{Term: "Days", Text: fmt.Sprintf("%d, from %s to %s", n, h.Days[0].Start.Format(time.DateOnly), h.Days[n-1].Start.Format(time.DateOnly))})
		r.Sections = append(r.Sections, sheet.Section{Name: "Day by day", Charts: []sheet.Chart{h.chart()}}, sheet.Section{Tables: []sheet.Table{h.weeks()}})
	}
	for _, t := range []sheet.Table{h.lives(), h.marks()} {
		if len(t.Rows) > 0 {
			r.Sections = append(r.Sections, sheet.Section{Tables: []sheet.Table{t}})
		}
	}
	r.Data = h.data(name, r.Summary)
	return r
}

const reading = "current is what stood on the nodes, by the scheduler's decision log. without is a replay of the same pods from the first recorded day on, under the rule that stands for the scheduler's own scores; " +
	"the replay is exact for the pods that came, and does not know that others might have come where there had been more room. " +
	"bound sums what the pods ask for and fills the cheapest nodes with it: no placement costs less, and most cannot come near it. A canary on shared nodes proves no saving, and none is counted from one."

func (h *History) unit() string { return cmp.Or(h.Currency, "price units") }

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

func (h *History) weeks() sheet.Table {
	t := sheet.Table{Caption: "Week by week, means of their days", Columns: []sheet.Column{
		{Head: "week from", Words: true, About: "Monday, in UTC"},
		{Head: "days", About: "whole days that were recorded without a gap"},
		{Head: "current", About: "cost an hour of the nodes in use"},
		{Head: "without", About: "the same, if the rule that stands for the scheduler's own scores had decided all along"},
		{Head: "saved %", About: "by how much current is below without"},
		{Head: "bound", About: "no placement costs less: sums of what the pods ask for"},
		{Head: "above bound %", About: "by how much current is above the bound"},
	}}
	for _, w := range h.byWeek() {
		t.Add(w.start.Format(time.DateOnly), fmt.Sprint(w.days), sheet.Short(w.Current), sheet.Short(w.Without),
			percent(1-w.Current/w.Without), sheet.Short(w.Bound), percent(w.Current/w.Bound-1))
	}
	return t
}

// percent is a share in percent; a hyphen if it is not finite.
func percent(share float64) string {
	if math.IsInf(share, 0) {
		share = math.NaN()
	}
	return sheet.Figure(100*share, 1, false)
}

func (h *History) chart() sheet.Chart {
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
	return sheet.Chart{
		Caption: "Means of whole days of UTC from " + first.Format(time.DateOnly) + " on. Days with a gap in the record are missing. What was decided is below.",
		Plot: sheet.LineChart{ID: "weeks", Title: "Cost of the nodes in use, day by day", Axis: h.unit() + " an hour", Limit: math.NaN(), Lines: []sheet.Line{
			line("current", func(d Day) float64 { return d.Current }), line("without", func(d Day) float64 { return d.Without }), line("bound", func(d Day) float64 { return d.Bound }),
		}},
	}
}

func (h *History) lives() sheet.Table {
	t := sheet.Table{Caption: "Promised against what came, the newest first", Columns: []sheet.Column{
		{Head: "in force since", Words: true},
		{Head: "policy", Words: true, About: "digest"},
		{Head: "promised %", About: "before it went to the cluster: a saving against the policy before, between the two ends with a probability of 90 %"},
		{Head: "came %", About: "by a replay of the whole days since under it and under the one before"},
		{Head: "days", About: "that it is from"},
		{Head: "held", Words: true, About: "whether what came lies within what was promised"},
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
		t.Add(minute(l.Since), l.Digest[:min(len(l.Digest), 15)], saving(l.Promised), saving(l.Realised), days, held)
	}
	return t
}

func minute(at time.Time) string { return at.UTC().Format("2006-01-02 15:04") }

func saving(s *pilot.Saving) string {
	if s == nil {
		return ""
	}
	return fmt.Sprintf("%.1f (%.1f to %.1f)", s.Mean, s.Low, s.High)
}

func (h *History) marks() sheet.Table {
	t := sheet.Table{Caption: "What the loop decided, the newest first", Columns: []sheet.Column{{Head: "at", Words: true, About: "in UTC"}, {Head: "what", Words: true}}}
	for _, m := range slices.Backward(h.Marks) {
		t.Add(minute(m.At), m.Text)
	}
	return t
}

func (h *History) data(name, verdict string) *sheet.Data {
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
	return &sheet.Data{Kind: "sigma pilot report", Version: sheet.DataVersion, Verdict: verdict, Parts: []sheet.DataPart{part}}
}
