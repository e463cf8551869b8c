package report

import (
	"fmt"

	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// dataOf is the content of the page of comparisons, for programs.
func dataOf(verdict string, comparisons []Comparison) *sheet.Data {
	d := &sheet.Data{Kind: "sigma compare", Version: sheet.DataVersion, Verdict: verdict, Parts: []sheet.DataPart{}}
	for i := range comparisons {
		d.Parts = append(d.Parts, comparisons[i].data())
	}
	return d
}

func (c *Comparison) data() sheet.DataPart {
	t := &c.Trace
	part := sheet.DataPart{Name: t.Name, Rows: []sheet.DataRow{}, Inputs: map[string]string{
		"instance": t.Digest.Instance, "trace": t.Digest.Trace, "seed": fmt.Sprint(t.Seed), "orders": fmt.Sprint(t.Orders),
		"retry": yesNo(t.Retry), "moves": yesNo(t.Moving),
	}}
	count, cost, per := "machines", "cost", 1.
	if t.Deletes {
		count, cost, per = "peak machines", "cost × hours", 3600
	}
	if t.Currency != "" {
		cost += ", " + t.Currency + " an hour"
	}
	if limit := c.boundCost(); limit > 0 && !t.Retry {
		part.Rows = append(part.Rows, sheet.DataRow{Name: "bound", Figures: []sheet.DataFigure{{Name: cost, Runs: []sheet.Number{sheet.Number(round(limit / per))}}}})
	}
	for i := range c.Results {
		r := &c.Results[i]
		row := sheet.DataRow{Name: r.Policy, Digest: r.Digest, Figures: []sheet.DataFigure{}}
		if r.Knowledge != "" && r.Knowledge != "K0" {
			row.Name += " (" + r.Knowledge + ")"
		}
		add := func(name string, values []float64) {
			f := sheet.DataFigure{Name: name}
			for _, v := range values {
				f.Runs = append(f.Runs, sheet.Number(round(v)))
			}
			if len(values) > 0 {
				row.Figures = append(row.Figures, f)
			}
		}
		runs := r.counted()
		add(count, valuesOf(runs, c.machineCount()))
		add(cost, valuesOf(runs, func(run Run) float64 { return c.cost(run) / per }))
		if c.leavesOut() {
			add("unplaced", valuesOf(runs, unplaced))
		}
		if t.Retry {
			add("wait s", valuesOf(runs, waiting))
		}
		if limit := c.boundCost(); r.GapToBound != nil {
			add("gap %", valuesOf(runs, func(run Run) float64 { return 100 * (c.cost(run)/limit - 1) }))
		}
		c.addSavings(r, add)
		part.Rows = append(part.Rows, row)
	}
	return part
}

// addSavings adds the savings of a result, by order, where [Saving] has it.
func (c *Comparison) addSavings(r *Result, add func(name string, values []float64)) {
	free := c.result(r.Saving.Against)
	if free == nil || r.Saving.Percent == nil {
		return
	}
	less, base := differences(r.counted(), free.counted(), c.cost), meanOf(free.counted(), c.cost)
	share := make([]float64, len(less))
	for i := range less {
		share[i] = 100 * less[i] / base
	}
	add("saving % against "+free.Policy, share)
	if m := r.Saving.Money; m != nil && r.Saving.Percent.Mean != 0 {
		for i := range share {
			share[i] *= m.Mean / r.Saving.Percent.Mean
		}
		add("saving, "+r.Saving.Currency+" a month", share)
	}
}

func valuesOf(runs []Run, value func(Run) float64) []float64 {
	values := make([]float64, len(runs))
	for i := range runs {
		values[i] = value(runs[i])
	}
	return values
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
