//go:build records

package tune

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/cputime"
)

// TestRecordExport: tune for upstream's scheduler on day one, against plain MostAllocated on day two, both
// with the mean of three draws of random ties.
func TestRecordExport(t *testing.T) {
	const draws = 3
	first, n := setting("TUNE_SEED", 910200), setting("TUNE_EXPORT", 40)
	began := cputime.Process()
	var against []float64
	said := map[string]int{}
	for seed := first; seed < first+n; seed++ {
		tr := generated(t, "kubernetes", seed, "fleet=one")
		result, err := Run(t.Context(), Config{
			Traces: []*trace.Trace{tr}, Until: day, Target: KubeScheduler,
			Evaluations: setting("TUNE_EVALUATIONS", 100), Seeds: 1, Seed: 1, Workers: 2, Name: "tuned",
		})
		require.NoError(t, err)
		own, base := 0., 0.
		for draw := range uint64(draws) {
			var p binpack.Policy = rule.MostAllocated{Ties: rule.Ties{Seed: 100 + draw}}
			cost, _ := after(t, tr, tr.Events[0].Time+day, p)
			base += cost
			switch {
			case !result.Better:
				p = rule.MostAllocated{}
			case result.Object != nil:
				p, err = result.Object.Policy()
			default:
				p, err = rule.ByName(result.Chosen, rule.Options{})
			}
			require.NoError(t, err)
			cost, _ = after(t, tr, tr.Events[0].Time+day, rule.AtRandom(p, 100+draw))
			own += cost
		}
		against = append(against, 100*(own/base-1))
		said[result.verdict()]++
		fmt.Printf("- %d: day two %+.2f %%; %s\n", seed, against[len(against)-1], sentence(result))
	}
	fmt.Printf("\nCost of day two against MostAllocated: %s; verdicts: %d better, %d no better; 95 %% interval of the mean ± %.2f; %.0f CPU-seconds\n",
		spread(against, 1), said["better"], said["no better"], 1.96*deviation(against)/math.Sqrt(float64(n)), cputime.Process()-began)
}

// deviation is the standard deviation.
func deviation(values []float64) float64 {
	mean, square := 0., 0.
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		square += (v - mean) * (v - mean)
	}
	return math.Sqrt(square / float64(max(1, len(values)-1)))
}
