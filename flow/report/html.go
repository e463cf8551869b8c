package report

import (
	_ "embed"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/sim"
	"github.com/sigma-scheduler/sigma/internal/sheet"
)

//go:embed page.html
var pageText string

var pageTemplate = sheet.Template(pageText)

// HTML writes the comparison as one page that loads nothing.
func HTML(w io.Writer, c *Comparison) error {
	if err := pageTemplate.Execute(w, c.page()); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

type page struct {
	Title, Summary string
	Facts          []sheet.Definition
	Tables         []table
	Notes          []string
	Scatter        *sheet.Chart
	Columns        []sheet.Definition
	Data           sheet.Data
}

type table struct {
	Caption string
	Table   sheet.Table
}

func (c *Comparison) page() page {
	s := &c.Setting
	p := page{
		Title: "Orders of flows compared: " + s.Sizes, Summary: c.Summary(), Notes: c.notes(), Scatter: c.scatter(), Data: c.data(),
		Facts: []sheet.Definition{
			{Term: "Sizes", Text: fmt.Sprintf("%s, mean %s bytes, %s", s.Sizes, digits(Number(s.Mean)), s.Digest)},
			{Term: "Setting", Text: c.about()},
			{Term: "Seeds", Text: strings.Trim(fmt.Sprint(c.Seeds), "[]")},
		},
	}
	for _, part := range c.parts() {
		t := table{Caption: part.title}
		for i, head := range part.heads {
			t.Table.Heads = append(t.Table.Heads, sheet.Cell{Text: head, About: part.about[i], Words: i == 0})
			if i > 0 {
				p.Columns = append(p.Columns, sheet.Definition{Term: head, Text: part.about[i]})
			}
		}
		for _, cells := range part.rows {
			var row sheet.Row
			for i, text := range cells {
				row.Cells = append(row.Cells, sheet.Cell{Text: text, Words: i == 0})
			}
			t.Table.Rows = append(t.Table.Rows, row)
		}
		p.Tables = append(p.Tables, t)
	}
	return p
}

// scatter draws the tail of short flows against the mean of all.
func (c *Comparison) scatter() *sheet.Chart {
	plot := sheet.Scatter{
		ID: "scatter", Title: "Mean time of all flows and the tail of short ones",
		XAxis: "mean time of all flows, ms", YAxis: "99th percentile of short flows, ms",
		XLimit: math.NaN(), YLimit: math.NaN(), Low: math.Inf(1),
	}
	var said []string
	for i := range c.Policies {
		p := &c.Policies[i]
		x, y := 1000*float64(p.Mean[0].Mean.Mean), 1000*float64(p.Mean[1].P99.Mean)
		if math.IsNaN(x) || math.IsNaN(y) {
			continue
		}
		plot.Low = min(plot.Low, y/2)
		about := fmt.Sprintf("%s: %s ms in the mean, short flows %s ms at the 99th percentile", p.Name, digits(Number(x)), digits(Number(y)))
		said = append(said, about)
		plot.Dots = append(plot.Dots, sheet.Dot{Label: p.Name, About: about, X: x, Y: y, XErr: 1000 * float64(p.Mean[0].Mean.Half), Strong: p.Thresholds != nil})
		if p.Name == Oracle && c.Setting.Hosts == 0 {
			plot.XLimit, plot.XLimitName = x, "oracle"
		}
	}
	plot.About = strings.Join(said, "; ") + "."
	svg := plot.SVG()
	if svg == "" {
		return nil
	}
	return &sheet.Chart{SVG: svg, Caption: "Lower and further left is better. Bars are half of the 95 % interval over seeds. Blue: policies with bands."}
}

// data is the content of the page, for programs.
func (c *Comparison) data() sheet.Data {
	s := &c.Setting
	part := sheet.DataPart{Name: s.Sizes, Rows: []sheet.DataRow{}, Inputs: map[string]string{
		"sizes":   s.Digest,
		"setting": fmt.Sprintf("load %g, rate %s, hosts %d, exact %t, %d flows%s, %d of them warm-up", s.Load, flow.FormatAmount(s.Rate), s.Hosts, s.Exact, s.Flows, s.carried(), s.WarmUp),
		"seeds":   strings.Trim(fmt.Sprint(c.Seeds), "[]"),
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
	return sheet.Data{Kind: "sigma flow simulate", Version: sheet.DataVersion, Verdict: c.Summary(), Parts: []sheet.DataPart{part}}
}
