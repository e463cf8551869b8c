package report

import (
	"fmt"
	"math"

	"github.com/sigma-scheduler/sigma/internal/sheet"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

// line is a series of one agent, with a band over its runs.
func (a *Agent) line(label string, value func(*sim.Minute) float64) sheet.Line {
	l := sheet.Line{Label: label}
	for i := range a.Minutes {
		time := a.Minutes[i].Time
		l.Points = append(l.Points, sheet.Point{Time: time, Value: value(&a.Minutes[i])})
		if len(a.all) < 2 {
			continue
		}
		r := sheet.Range{Time: time, Low: nothing, High: nothing}
		for _, minutes := range a.all {
			if i < len(minutes) {
				v := value(&minutes[i])
				r.Low, r.High = sheet.Min(r.Low, v), sheet.Max(r.High, v)
			}
		}
		l.Band = append(l.Band, r)
	}
	return l
}

// over returns the minutes over the promise, as spans.
func (a *Agent) over() []sheet.Span {
	var times []float64
	for i := range a.Minutes {
		if a.Minutes[i].Violated {
			times = append(times, a.Minutes[i].Time)
		}
	}
	return sheet.Spans(times, 60)
}

// marks returns the events of an agent's pods, at the values of a line.
func (a *Agent) marks(kind string, count func(*sim.Minute) int, value func(*sim.Minute) float64) []sheet.Mark {
	var list []sheet.Mark
	for i := range a.Minutes {
		if n := count(&a.Minutes[i]); n > 0 {
			list = append(list, sheet.Mark{Time: a.Minutes[i].Time, Value: value(&a.Minutes[i]), Kind: kind, Count: n})
		}
	}
	return list
}

func scalings(m *sim.Minute) int { return m.Scalings }
func resizes(m *sim.Minute) int  { return m.Resizes }
func kills(m *sim.Minute) int    { return m.Kills }

// lanes draws the minutes over the promise of all agents that differ.
func (c *Comparison) lanes() sheet.Chart {
	p := sheet.LaneChart{ID: "all-over", Title: "Minutes over the promise"}
	for i := range c.Agents {
		a := &c.Agents[i]
		like := c.like(a)
		if len(a.Minutes) < 2 || like[0] != a {
			continue
		}
		p.From, p.To = a.Minutes[0].Time, a.Minutes[len(a.Minutes)-1].Time
		about := fmt.Sprintf("%d of %d minutes", a.violated(), len(a.Minutes))
		p.Lanes = append(p.Lanes, sheet.Lane{Label: groupName(like), About: about, Spans: a.over()})
		p.About += groupName(like) + ": " + about + ". "
	}
	caption := fmt.Sprintf("Red: minutes in which fewer than %g %% of the requests were answered within %g ms.", c.App.Percentile, 1000*c.App.Latency)
	if limit := c.agent(Limit); limit != nil && len(limit.Minutes) > 1 && limit.violated() > 0 && c.kept(limit) {
		busy, mean := 0, 0.
		for i := range limit.Minutes {
			mean += limit.Minutes[i].Rate / float64(len(limit.Minutes))
		}
		for i := range limit.Minutes {
			if m := &limit.Minutes[i]; m.Violated && m.Rate > mean {
				busy++
			}
		}
		caption += fmt.Sprintf(" The oracle has them too, %d of %d while more requests came than in the mean: the promise is of all requests of the run, and the least cost uses what it allows.", busy, limit.violated())
	}
	return sheet.Chart{Plot: p, Caption: caption}
}

// violated counts the minutes over the promise.
func (a *Agent) violated() int {
	n := 0
	for i := range a.Minutes {
		if a.Minutes[i].Violated {
			n++
		}
	}
	return n
}

// lost reports whether the 99th percentile is lost in a minute that is drawn.
func (a *Agent) lost() bool {
	for i := range a.Minutes {
		if math.IsInf(a.Minutes[i].P99, 1) {
			return true
		}
	}
	return false
}
