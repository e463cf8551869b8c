package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/sim"
	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// Report describes the comparison.
func (c *Comparison) Report() *sheet.Report {
	s := &c.Setting
	return &sheet.Report{
		Title: "Orders of flows compared: " + s.Sizes, Summary: c.Summary(), About: c.about(), Data: c.data(),
		Facts: []sheet.Definition{
			{Term: "Sizes", Text: fmt.Sprintf("%s, mean %s bytes, %s", s.Sizes, digits(s.Mean), s.Digest)},
			{Term: "Setting", Text: c.about()},
			{Term: "Seeds", Text: c.seeds()},
		},
		Sections: []sheet.Section{{Tables: c.tables(), Notes: c.notes(), Charts: []sheet.Chart{c.scatter()}}},
		Reading:  reading,
	}
}

const reading = "All policies had the same arrivals of each seed. The model is fluid: no packets, no handshake, no slow start, so real short flows take longer under every policy, and much longer in a common queue. " +
	"fair shares the link evenly, as TCP flows come near to. bands, tuned and hinted serve short flows first by the bytes that they have sent, tuned with thresholds found by simulation on other arrivals, hinted with an estimate of the size too. " +
	"las serves the flow that has sent least. srpt knows every size and serves the one with the least left: on one link nothing has a smaller mean."

// scatter draws the tail of short flows against the mean of all.
func (c *Comparison) scatter() sheet.Chart {
	plot := sheet.Scatter{
		ID: "scatter", Title: "Mean time of all flows and the tail of short ones",
		XAxis: "mean time of all flows, ms", YAxis: "99th percentile of short flows, ms",
		XLimit: math.NaN(), YLimit: math.NaN(), Low: math.Inf(1),
	}
	var said []string
	for i := range c.Policies {
		p := &c.Policies[i]
		x, y := 1000*p.Mean[0].Mean.Mean, 1000*p.Mean[1].P99.Mean
		if math.IsNaN(x) || math.IsNaN(y) {
			continue
		}
		plot.Low = min(plot.Low, y/2)
		about := fmt.Sprintf("%s: %s ms in the mean, short flows %s ms at the 99th percentile", p.Name, digits(x), digits(y))
		said = append(said, about)
		plot.Dots = append(plot.Dots, sheet.Dot{Label: p.Name, About: about, X: x, Y: y, XErr: 1000 * p.Mean[0].Mean.Half, Strong: p.Thresholds != nil})
		if p.Name == Oracle && c.Setting.Hosts == 0 {
			plot.XLimit, plot.XLimitName = x, "oracle"
		}
	}
	plot.About = strings.Join(said, "; ") + "."
	return sheet.Chart{Plot: plot, Caption: "Lower and further left is better. Bars are half of the 95 % interval over seeds. Blue: policies with bands."}
}

// seeds lists the seeds.
func (c *Comparison) seeds() string { return strings.Trim(fmt.Sprint(c.Seeds), "[]") }

// data is the content of the page, for programs.
func (c *Comparison) data() *sheet.Data {
	s := &c.Setting
	part := sheet.DataPart{Name: s.Sizes, Rows: []sheet.DataRow{}, Inputs: map[string]string{
		"sizes":   s.Digest,
		"setting": fmt.Sprintf("load %g, rate %s, hosts %d, exact %t, %d flows%s, %d of them warm-up", s.Load, flow.FormatAmount(s.Rate), s.Hosts, s.Exact, s.Flows, s.carried(), s.WarmUp),
		"seeds":   c.seeds(),
	}}
	for i := range c.Policies {
		p := &c.Policies[i]
		row := sheet.DataRow{Name: p.Name, Figures: []sheet.DataFigure{}}
		for k, name := range sim.Classes() {
			for _, f := range []struct {
				name  string
				value func(c *sim.Class) float64
			}{
				{name + " mean ms", func(c *sim.Class) float64 { return 1000 * c.Mean }},
				{name + " p99 ms", func(c *sim.Class) float64 { return 1000 * c.P99 }},
				{name + " slowdown", func(c *sim.Class) float64 { return c.Slow }},
				{name + " p99 slowdown", func(c *sim.Class) float64 { return c.Slow9 }},
			} {
				figure := sheet.DataFigure{Name: f.name}
				for r := range p.Runs {
					figure.Runs = append(figure.Runs, Number(f.value(&p.Runs[r].Classes[k])))
				}
				row.Figures = append(row.Figures, figure)
			}
		}
		part.Rows = append(part.Rows, row)
	}
	return &sheet.Data{Kind: "sigma flow simulate", Version: sheet.DataVersion, Verdict: c.Summary(), Parts: []sheet.DataPart{part}}
}
