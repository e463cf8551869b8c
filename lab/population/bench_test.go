//go:build unix

package population

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/learned"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/internal/cputime"
)

// BenchmarkPopulation replays the two one-dimensional families, in turns with
// Best Fit; items per CPU-second of the process.
func BenchmarkPopulation(b *testing.B) {
	for _, know := range []binpack.Knowledge{binpack.K0, binpack.K0Clock} {
		p, err := New(learned.Spec{Knowledge: know})
		require.NoError(b, err)
		for _, kind := range []string{"orlib", "weibull"} {
			b.Run("kind="+kind+"/knowledge="+know.String(), func(b *testing.B) {
				r := cerebro.NewReplayer(generated(b, kind, 900_001))
				rate := func(p binpack.Policy) func() {
					placed, seconds := 0, 0.0
					return func() {
						start := cputime.Process()
						for order := range 4 {
							run, err := r.Run(p, cerebro.Options{Order: 1 + order, Seed: 5, Brief: true})
							require.NoError(b, err)
							placed += run.Placed
						}
						seconds += cputime.Process() - start
						b.ReportMetric(float64(placed)/seconds, map[bool]string{false: "items/CPU-s", true: "bestfit-items/CPU-s"}[p == binpack.Policy(rule.BestFit{})])
					}
				}
				own, peer := rate(p), rate(rule.BestFit{})
				for b.Loop() {
					own()
					peer()
				}
			})
		}
	}
}
