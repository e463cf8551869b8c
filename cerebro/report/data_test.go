package report

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// The data of a page have the figures of the table: their means over runs are the result's.
func TestData(t *testing.T) {
	for name, comparisons := range pages() {
		d := dataOf("verdict", comparisons)
		require.Len(t, d.Parts, len(comparisons), name)
		for i, part := range d.Parts {
			c := &comparisons[i]
			assert.Equal(t, c.Trace.Digest.Trace, part.Inputs["trace"])
			assert.Equal(t, fmt.Sprint(c.Trace.Orders), part.Inputs["orders"])
			figures := map[string]map[string]float64{}
			for _, r := range part.Rows {
				figures[r.Name] = map[string]float64{}
				for _, f := range r.Figures {
					figures[r.Name][f.Name] = meanOfNumbers(f.Runs)
				}
			}
			for _, r := range c.Results {
				row := r.Policy
				if r.Knowledge != "" && r.Knowledge != "K0" {
					row += " (" + r.Knowledge + ")"
				}
				require.Contains(t, figures, row)
				if !c.Trace.Deletes {
					assert.InDelta(t, r.MeanMachines, figures[row]["machines"], 1e-5)
				}
				if r.GapToBound != nil {
					assert.InDelta(t, 100**r.GapToBound, figures[row]["gap %"], 1e-3)
				}
				if s := r.Saving; s.Percent != nil {
					assert.InDelta(t, s.Percent.Mean, figures[row]["saving % against "+s.Against], 1e-4)
				}
			}
		}
	}
}

func meanOfNumbers(runs []sheet.Number) float64 {
	var values []float64
	for _, v := range runs {
		values = append(values, float64(v))
	}
	return floats.Sum(values) / float64(len(values))
}
