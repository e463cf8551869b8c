package placement

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/lab/records"
)

// The section runs whole at small counts, and the summary finds its rows there.
func TestCluster(t *testing.T) {
	cfg := configure(t, buildSigma(t))
	t.Chdir(filepath.Join("..", "..", "..")) // where manifests/policy.yaml is
	size := clusterSize{
		instances: 2, orders: 2, clusters: 2, scale: ".1", wide: ".2", nodes: "20",
	}
	section := Section{Name: "cluster", run: size.run}
	require.NoError(t, section.Run(t.Context(), cfg))
	text, err := os.ReadFile(filepath.Join(cfg.Docs, "results", "cluster.md"))
	require.NoError(t, err)
	tables, err := records.ParseTables(string(text))
	require.NoError(t, err)
	require.Len(t, tables, 1)
	var rows [][2]string
	for _, row := range tables[0].Rows {
		rows = append(rows, [2]string{row[0], row[1]})
		assert.NotContains(t, strings.Join(row, " "), "NaN")
	}
	for _, work := range []string{
		"fixed, 1.02 × bound, K1, single pods, 2", "fixed, 1.5 × bound, K1, single pods, 2",
		"large, open, K1, single pods, forecast × 1, 2", "kubernetes, fixed, 1.5 × the peak, K1, 2 clusters",
	} {
		assert.True(t, slices.ContainsFunc(rows, func(row [2]string) bool { return row[0] == work }), work)
	}
	assert.Contains(t, string(text), "--set f=1.5 --set single=1 --out")
	small := strings.NewReplacer("12 × 10", "2 × 2", "40 clusters", "2 clusters")
	for _, p := range clusterPicks() {
		assert.Contains(t, rows, [2]string{small.Replace(p.Work), p.Figure})
	}
	assert.Contains(t, string(text), "--policy bestfit,mostallocated,worstfit,dotproduct,manifests/policy.yaml --orders 0 --seed 7 --format json --retry\n")
}

// Two clusters: costs of 100 and 100 with Best-Fit, 97 with another rule on the second.
func TestClusterFigures(t *testing.T) {
	costs := map[string][2]float64{"bestfit": {100, 100}, "mostallocated": {120, 97}, "worstfit": {150, 150}, "dotproduct": {130, 130}, installed: {100.5, 98.5}}
	k := &block{traces: make([]report.Comparison, 2)}
	for policy, cost := range costs {
		for i, v := range cost {
			k.traces[i].Results = append(k.traces[i].Results, report.Result{Policy: policy, Runs: []report.Run{{CostSeconds: v, Unplaced: i + 1, Seconds: .5}}})
			k.traces[i].Trace.Items = 100
		}
	}
	mean, _ := k.againstBestFit(installed)
	assert.InDelta(t, -.5, mean, 1e-9) // (.5 − 1.5) ÷ 2
	share, _ := k.behind(installed)    // 100.5 ≤ 1.01·100; 98.5 > 1.01·97
	assert.InDelta(t, 50, share, 1e-9)
	assert.InDelta(t, 3, k.unplaced(installed), 1e-9)
	rate, _ := k.rate(installed)
	assert.InDelta(t, 200, rate, 1e-9) // 200 items ÷ 1 s
	assert.InDelta(t, 25, percent(1, 4), 1e-9)
	assert.Zero(t, percent(0, 0))
	assert.True(t, math.IsInf(percent(1, 0), 1))
}
