package tune

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/cerebro/report"
)

// A dimension that one span does not judge counts by the spans that do.
func TestRiskOfTheSpansThatJudge(t *testing.T) {
	of := func(over map[string]float64) []loss {
		judged := map[string]float64{"cpu": 100, "memory": 0}
		for d := range over {
			judged[d] = 100
		}
		return []loss{{use: &report.Use{OverPercent: over, JudgedPercent: judged, Worst: map[string]float64{}, CoveredPercent: map[string]float64{}}}}
	}
	require.InDelta(t, .5, losses{of(map[string]float64{"cpu": .01, "memory": .5}), of(map[string]float64{"cpu": .03})}.risk(), 1e-9)
	require.InDelta(t, .02, losses{of(map[string]float64{"cpu": .01}), of(map[string]float64{"cpu": .03})}.risk(), 1e-9)
	require.Zero(t, losses{{{}}}.risk())
}
