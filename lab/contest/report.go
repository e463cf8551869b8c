package contest

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// A Summary is a line of the table.
type Summary struct {
	Learner string       `json:"learner"`
	Median  sheet.Number `json:"median_trials"`
	P90     sheet.Number `json:"p90_trials"`
	Stays   float64      `json:"stays_percent"`
	Lost    float64      `json:"lost_percent"`
	Failing float64      `json:"failing_trials"`
	Back    sheet.Number `json:"median_back"`
	BackP90 sheet.Number `json:"p90_back"`
	Killing float64      `json:"failing_per_change"`
	Excess  float64      `json:"limit_to_smallest_good"`
	Windows float64      `json:"windows_per_trial"`
	// Kinds has the share that stays by kind of profile.
	Kinds map[string]float64 `json:"stays_percent_by_kind"`
}

// Summaries returns a line a learner.
func (c *Comparison) Summaries() []Summary {
	var list []Summary
	for i := range c.Results {
		list = append(list, c.summary(&c.Results[i]))
	}
	return list
}

func (c *Comparison) summary(r *Result) Summary {
	s := Summary{Learner: r.Learner, Kinds: map[string]float64{}}
	var found, back []int
	kinds := map[string][2]float64{}
	excess, changes := 0.0, 0.0
	for _, run := range r.Runs {
		n := float64(len(r.Runs))
		found = append(found, run.Found)
		k := kinds[run.Kind]
		k[1]++
		if run.Found > 0 {
			s.Stays += 100 / n
			k[0]++
		}
		kinds[run.Kind] = k
		s.Lost += 100 * run.Lost / n
		s.Failing += float64(run.Failing) / n
		s.Windows += float64(run.Windows) / n / float64(c.Config.Trials)
		excess += math.Log(run.Excess) / n
		if !run.NoChange {
			back = append(back, run.Back)
			s.Killing += float64(run.Killing)
			changes++
		}
	}
	s.Killing /= changes
	s.Excess = math.Exp(excess)
	s.Median, s.P90 = sheet.Number(quantile(found, .5)), sheet.Number(quantile(found, .9))
	s.Back, s.BackP90 = sheet.Number(quantile(back, .5)), sheet.Number(quantile(back, .9))
	for kind, k := range kinds {
		s.Kinds[kind] = 100 * k[0] / k[1]
	}
	return s
}

// JSON writes summaries and runs.
func (c *Comparison) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		Summaries []Summary `json:"summaries"`
		*Comparison
	}{c.Summaries(), c})
}

func trials(n sheet.Number) string {
	if math.IsInf(float64(n), 1) {
		return "never"
	}
	return fmt.Sprintf("%.0f", float64(n))
}

// Table writes a line a learner.
func (c *Comparison) Table(w io.Writer) error {
	list := c.Summaries()
	figures, kinds := c.tables(list)
	kinds.Columns[0].Head = "stays %"
	var b strings.Builder
	figures.Text(&b)
	b.WriteString("\n")
	kinds.Text(&b)
	_, err := fmt.Fprintf(w, "%s\n%s\n", b.String(), c.verdict(list))
	return err
}
