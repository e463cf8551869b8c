package placement

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/lab/records"
)

// The section runs whole at small counts, and the summary finds its rows there.
func TestMoves(t *testing.T) {
	cfg := configure(t, buildSigma(t))
	cfg.Runner.Lab = build(t, "../../cmd/sigma-lab")
	size := movesSize{instances: 2, orders: 2, opens: 1, openOrders: 2, drained: 2, clusters: 2, scale: ".1", wide: ".2", nodes: "20"}
	section := Section{Name: "moves", research: true, run: size.run}
	require.NoError(t, section.Run(t.Context(), cfg))
	text, err := os.ReadFile(filepath.Join(cfg.Docs, "results", "moves.md"))
	require.NoError(t, err)
	tables, err := records.ParseTables(string(text))
	require.NoError(t, err)
	require.Len(t, tables, 1)
	var rows [][2]string
	for _, row := range tables[0].Rows {
		rows = append(rows, [2]string{row[0], row[1]})
		assert.NotContains(t, strings.Join(row, " "), "NaN")
	}
	small := strings.NewReplacer("12 × 10", "2 × 2", "40 clusters", "2 clusters", "large × 6", "large × 2")
	for _, p := range movesPicks() {
		if !strings.HasPrefix(p.Work, "azure") && !strings.Contains(p.Work, "79145 items") {
			assert.Contains(t, rows, [2]string{small.Replace(p.Work), p.Figure})
		}
	}
	assert.Contains(t, string(text), "](moves.svg)")
	assert.FileExists(t, filepath.Join(cfg.Docs, "results", "moves.svg"))
	assert.Contains(t, string(text), "- Azure: left out, SIGMA_DATA is not set\n")
}

func TestFreed(t *testing.T) {
	r := rebalanced{Curve: []point{{10, 3, 1}, {20, 5, 1}}}
	own, drain := r.freed(10)
	assert.Equal(t, [2]int{3, 1}, [2]int{own, drain})
	own, _ = r.freed(9)
	assert.Zero(t, own)
}
