package contest

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/sigma-scheduler/sigma/internal/sheet"
	"github.com/sigma-scheduler/sigma/mpa/capacity"
)

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

// tables have a line a learner: its figures, and its share by kind of profile.
func (c *Comparison) tables(list []Summary) (figures, kinds sheet.Table) {
	figures = sheet.Table{Align: sheet.Left, Caption: "One line a learner, over all profiles and runs", Columns: []sheet.Column{{Head: "learner", Words: true}}}
	for _, m := range measures {
		figures.Columns = append(figures.Columns, sheet.Column{Head: m.head, About: m.about})
	}
	kinds = sheet.Table{Align: sheet.Left, Caption: "Runs whose answer stays within 5 %, in percent, by kind of profile", Columns: figures.Columns[:1:1]}
	for _, k := range Kinds() {
		kinds.Columns = append(kinds.Columns, sheet.Column{Head: k})
	}
	for i := range list {
		s := &list[i]
		row, share := []string{s.Learner}, []string{s.Learner}
		for _, m := range measures {
			row = append(row, m.text(s))
		}
		for _, k := range Kinds() {
			share = append(share, fmt.Sprintf("%.0f", s.Kinds[k]))
		}
		about := capacity.About(s.Learner)
		figures.Rows = append(figures.Rows, sheet.Row{Cells: row, About: about})
		kinds.Rows = append(kinds.Rows, sheet.Row{Cells: share, About: about})
	}
	return figures, kinds
}

// Report describes the comparison.
func (c *Comparison) Report() *sheet.Report {
	list := c.Summaries()
	trialsOf := "one window of 30 s"
	if c.Config.ByInterval {
		trialsOf = "windows of 1 s until the throughput is known within 3 %"
	}
	figures, kinds := c.tables(list)
	part := sheet.DataPart{Name: "drawn profiles", Inputs: map[string]string{
		"first": strconv.FormatUint(c.Config.First, 10), "profiles": strconv.Itoa(c.Config.Profiles), "noise": fmt.Sprint(c.Config.Noise),
	}}
	for _, s := range list {
		data := sheet.DataRow{Name: s.Learner}
		for _, f := range []struct {
			name  string
			value float64
		}{{"stays %", s.Stays}, {"lost %", s.Lost}, {"failing trials", s.Failing}, {"failing a change", s.Killing}} {
			data.Figures = append(data.Figures, sheet.DataFigure{Name: f.name, Runs: []sheet.Number{sheet.Number(f.value)}})
		}
		part.Rows = append(part.Rows, data)
	}
	verdict := c.verdict(list)
	return &sheet.Report{
		Title: "Learners of the concurrency limit compared", Summary: verdict, Reading: reading,
		Facts: []sheet.Definition{
			{Term: "profiles", Text: fmt.Sprintf("%d from seed %d, of which %d no limit suits", c.Config.Profiles, c.Config.First, c.Hopeless)},
			{Term: "runs", Text: strconv.Itoa(c.Config.Runs) + " of each"},
			{Term: "noise", Text: fmt.Sprintf("%g %% a window", 100*c.Config.Noise)},
			{Term: "a trial", Text: trialsOf},
			{Term: "limits", Text: fmt.Sprintf("%d from %d to %d, begins with %d", len(c.Config.Limits), c.Config.Limits[0], c.Config.Limits[len(c.Config.Limits)-1], c.Config.Initial)},
		},
		Sections: []sheet.Section{{Tables: []sheet.Table{figures, kinds}}, {Name: "Trial by trial", Charts: c.charts()}},
		Data:     &sheet.Data{Kind: "sigma-lab contest", Version: sheet.DataVersion, Verdict: verdict, Parts: []sheet.DataPart{part}},
	}
}

const reading = "Each learner looked for the best limit of the same pods, whose true throughput at every limit is known. It has found it when its answer stays within 5 % of the best throughput that the guard leaves within reach. " +
	"Then every request became three times as large, or a third: cpu, waiting and memory."

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
		if ours >= 0 && i != ours {
			lines = append(lines, line(&c.Results[ours]))
		}
		charts = append(charts, sheet.Chart{
			Plot:    sheet.LineChart{ID: fmt.Sprintf("curve-%d", i+1), Title: c.Results[i].Learner + ": throughput, trial by trial", Axis: "% of the best", Lines: lines, Limit: math.NaN(), High: 100, Unit: "trials"},
			Caption: fmt.Sprintf("%s: throughput of the limit that was tried ÷ the best one, mean of all runs. The pods change after trial %d.", c.Results[i].Learner, c.Config.Trials),
		})
	}
	return charts
}
