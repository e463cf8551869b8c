package contest

import (
	_ "embed"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/sigma-scheduler/sigma/internal/sheet"
	"github.com/sigma-scheduler/sigma/mpa/capacity"
)

//go:embed page.html
var pageText string

var pageTemplate = sheet.Template(pageText)

type page struct {
	Title, Summary string
	Facts          []sheet.Definition
	Tables         []table
	Charts         []sheet.Chart
	Columns        []sheet.Definition
	Data           sheet.Data
}

type table struct {
	Table   sheet.Table
	Caption string
}

// A measure is a column of the table.
type measure struct {
	head, about string
	text        func(s *Summary) string
}

var measures = []measure{
	{"median", "trials until its answer stays within 5 % of the best, median of the runs", func(s *Summary) string { return trials(s.Median) }},
	{"p90", "the same, 90th percentile", func(s *Summary) string { return trials(s.P90) }},
	{"stays %", "share of runs whose answer is there at the end, and stays", func(s *Summary) string { return fmt.Sprintf("%.1f", s.Stays) }},
	{"lost %", "throughput that the trials cost against the best limit", func(s *Summary) string { return fmt.Sprintf("%.2f", s.Lost) }},
	{"failing", "trials of a run that killed the pod", func(s *Summary) string { return fmt.Sprintf("%.3f", s.Failing) }},
	{"back", "trials until it is there again after the change, median", func(s *Summary) string { return trials(s.Back) }},
	{"back p90", "the same, 90th percentile", func(s *Summary) string { return trials(s.BackP90) }},
	{"failing after", "trials that killed the pod, a change", func(s *Summary) string { return fmt.Sprintf("%.3f", s.Killing) }},
	{"limit ÷ good", "its limit ÷ the smallest within 5 % of the best, geometric mean", func(s *Summary) string { return fmt.Sprintf("%.2f", s.Excess) }},
	{"windows", "windows a trial", func(s *Summary) string { return fmt.Sprintf("%.1f", s.Windows) }},
}

// HTML writes the comparison as one page that loads nothing else.
func (c *Comparison) HTML(w io.Writer) error {
	if err := pageTemplate.Execute(w, c.page()); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

func (c *Comparison) page() page {
	list := c.Summaries()
	trialsOf := "one window of 30 s"
	if c.Config.ByInterval {
		trialsOf = "windows of 1 s until the throughput is known within 3 %"
	}
	p := page{
		Title: "Learners of the concurrency limit compared", Summary: c.verdict(list),
		Facts: []sheet.Definition{
			{Term: "profiles", Text: fmt.Sprintf("%d from seed %d, of which %d no limit suits", c.Config.Profiles, c.Config.First, c.Hopeless)},
			{Term: "runs", Text: strconv.Itoa(c.Config.Runs) + " of each"},
			{Term: "noise", Text: fmt.Sprintf("%g %% a window", 100*c.Config.Noise)},
			{Term: "a trial", Text: trialsOf},
			{Term: "limits", Text: fmt.Sprintf("%d from %d to %d, begins with %d", len(c.Config.Limits), c.Config.Limits[0], c.Config.Limits[len(c.Config.Limits)-1], c.Config.Initial)},
		},
	}
	figures := sheet.Table{Heads: []sheet.Cell{{Text: "learner", Words: true}}}
	for _, m := range measures {
		figures.Heads = append(figures.Heads, sheet.Cell{Text: m.head, About: m.about})
		p.Columns = append(p.Columns, sheet.Definition{Term: m.head, Text: m.about})
	}
	kinds := sheet.Table{Heads: []sheet.Cell{{Text: "learner", Words: true}}}
	for _, k := range Kinds() {
		kinds.Heads = append(kinds.Heads, sheet.Cell{Text: k})
	}
	part := sheet.DataPart{Name: "drawn profiles", Inputs: map[string]string{
		"first": strconv.FormatUint(c.Config.First, 10), "profiles": strconv.Itoa(c.Config.Profiles), "noise": fmt.Sprint(c.Config.Noise),
	}}
	for i := range list {
		s := &list[i]
		first := sheet.Cell{Text: s.Learner, Words: true, About: capacity.About(s.Learner)}
		row, share := sheet.Row{Cells: []sheet.Cell{first}}, sheet.Row{Cells: []sheet.Cell{first}}
		for _, m := range measures {
			row.Cells = append(row.Cells, sheet.Cell{Text: m.text(s)})
		}
		for _, k := range Kinds() {
			share.Cells = append(share.Cells, sheet.Cell{Text: fmt.Sprintf("%.0f", s.Kinds[k])})
		}
		figures.Rows, kinds.Rows = append(figures.Rows, row), append(kinds.Rows, share)
		data := sheet.DataRow{Name: s.Learner}
		for _, f := range []struct {
			name  string
			value float64
		}{{"stays %", s.Stays}, {"lost %", s.Lost}, {"failing trials", s.Failing}, {"failing a change", s.Killing}} {
			data.Figures = append(data.Figures, sheet.DataFigure{Name: f.name, Runs: []sheet.Number{sheet.Number(f.value)}})
		}
		part.Rows = append(part.Rows, data)
	}
	p.Tables = []table{{figures, "One line a learner, over all profiles and runs"}, {kinds, "Runs whose answer stays within 5 %, in percent, by kind of profile"}}
	p.Data = sheet.Data{Kind: "sigma-lab contest", Version: sheet.DataVersion, Verdict: p.Summary, Parts: []sheet.DataPart{part}}
	p.Charts = c.charts()
	return p
}

// verdict says in a sentence how the default does, and on which kinds another learner
// that is not told the answer does better.
func (c *Comparison) verdict(list []Summary) string {
	i := slices.IndexFunc(list, func(s Summary) bool { return s.Learner == capacity.Default })
	if i < 0 {
		return "The default learner is not among those compared."
	}
	ours := &list[i]
	text := fmt.Sprintf("%s finds the limit in %s trials (90th percentile %s) and stays there in %.1f %% of runs.", ours.Learner, trials(ours.Median), trials(ours.P90), ours.Stays)
	lost := ""
	for _, s := range list {
		if s.Learner != "golden" && s.Learner != "ucb" {
			continue
		}
		for _, k := range Kinds() {
			if s.Kinds[k] > ours.Kinds[k] {
				lost += fmt.Sprintf(" On %s %s stays more often (%.0f against %.0f %%).", k, s.Learner, s.Kinds[k], ours.Kinds[k])
			}
		}
	}
	if lost == "" {
		lost = " Neither golden nor ucb stays more often on any kind of profile."
	}
	return text + lost
}

// charts has the curve of each learner beside that of the best limit.
func (c *Comparison) charts() []sheet.Chart {
	var charts []sheet.Chart
	line := func(r *Result) sheet.Line {
		l := sheet.Line{Label: r.Learner}
		for i, share := range r.Curve {
			l.Points = append(l.Points, sheet.Point{Time: float64(i + 1), Value: 100 * share})
		}
		return l
	}
	ours := slices.IndexFunc(c.Results, func(r Result) bool { return r.Learner == capacity.Default })
	for i := range c.Results {
		lines := []sheet.Line{line(&c.Results[i])}
		var legend []string
		if ours >= 0 && i != ours {
			lines = append(lines, line(&c.Results[ours]))
			legend = []string{c.Results[i].Learner, capacity.Default}
		}
		chart := sheet.LineChart{ID: fmt.Sprintf("curve-%d", i+1), Title: c.Results[i].Learner + ": throughput, trial by trial", Axis: "% of the best", Lines: lines, Limit: math.NaN(), High: 100, Unit: "trials"}
		if svg := chart.SVG(); svg != "" {
			charts = append(charts, sheet.Chart{SVG: svg, Legend: legend, Caption: fmt.Sprintf("%s: throughput of the limit that was tried ÷ the best one, mean of all runs. The pods change after trial %d.", c.Results[i].Learner, c.Config.Trials)})
		}
	}
	return charts
}
