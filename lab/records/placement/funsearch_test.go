package placement

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/lab/convert"
)

// The published figures of FunSearch's heuristics, to the last bin.
func TestFunsearch(t *testing.T) {
	data := os.Getenv("SIGMA_DATA")
	if data == "" {
		t.Skip("SIGMA_DATA is not set")
	}
	for file, want := range map[string]float64{"or3.json": 207.45, "weibull-5k.json": 2001.4} {
		heuristic := funsearchOr3
		if file == "weibull-5k.json" {
			heuristic = funsearchWeibull
		}
		bins, n := 0, 0
		err := convert.Convert("funsearch", []string{filepath.Join(data, "funsearch-binpack", file)}, convert.Options{}, func(tr *trace.Trace, _ int) error {
			capacity, items := itemsOf(tr)
			bins += heuristic(capacity, items)
			n++
			return nil
		})
		require.NoError(t, err)
		require.InDelta(t, want, float64(bins)/float64(n), 1e-9)
	}
}
