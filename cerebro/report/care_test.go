package report

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Of several traces there is one line for each policy and mode: the mean, its error, and the worst trace.
func TestCareNotes(t *testing.T) {
	extra := func(x float64) *float64 { return &x }
	care := func(mode string, x *float64, machine, was int32) *Care {
		return &Care{Mode: mode, Share: .5, Extra: x, Apps: []AppRisk{{"web", 4, machine, 0, 4, was, 0}}}
	}
	of := func(name string, of ...*Care) (c Comparison) {
		c.Trace.Name = name
		for i, k := range of {
			c.Results = append(c.Results, Result{Policy: []string{"bestfit", "learned"}[i], Care: k})
		}
		return c
	}
	a := of("a", care("keep", extra(.01), 1, 4), care("keep", extra(.02), 2, 2))
	b := of("b", care("keep", extra(.03), 1, 4), care("trade", nil, 4, 4))
	require.Equal(t, []string{
		"preferences under bestfit: mode keep, at most 0.5 of an app on a machine: +2.00 ± 1.00 % cost against ignoring both, mean of 2 traces, at most +3.00 % (b); " +
			"one machine takes 25 % of an app in the mean, 25 % at most (ignored: 100 %, 100 %)",
		"preferences under learned: mode keep, at most 0.5 of an app on a machine: +2.00 % cost against ignoring both; one machine takes 50 % of an app in the mean, 50 % at most (ignored: 50 %, 50 %)",
		"preferences under learned: mode trade, at most 0.5 of an app on a machine: no cost; one machine takes 100 % of an app in the mean, 100 % at most (ignored: 100 %, 100 %)",
	}, CareNotes([]Comparison{a, b}))
	require.Contains(t, CareNotes([]Comparison{a})[0], "a: preferences under bestfit: mode keep")
	require.Empty(t, CareNotes([]Comparison{of("c", nil)}))
}
