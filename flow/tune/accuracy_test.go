package tune

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/sim"
	"github.com/sigma-scheduler/sigma/internal/cputime"
)

// testSeed begins the seeds that nothing is developed on.
const testSeed = 900_000

func public(t *testing.T, name string) *flow.Sizes {
	t.Helper()
	folder := os.Getenv("SIGMA_DATA")
	if folder == "" {
		t.Skip("SIGMA_DATA is not set")
	}
	file, err := os.Open(folder + "/flows/" + name + ".csv")
	require.NoError(t, err)
	defer func() { _ = file.Close() }() // only read
	s, err := flow.ParseSizes(name, file, false)
	require.NoError(t, err)
	return s
}

// seen is what a window has after n flows.
func seen(t *testing.T, s *flow.Sizes, n int, seed uint64) *flow.Sizes {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1<<32))
	sizes := make([]float64, n)
	for i := range sizes {
		sizes[i] = s.Quantile(rng.Float64())
	}
	sample, err := flow.SampleSizes(s.Name, sizes)
	require.NoError(t, err)
	return sample
}

// TestAccuracy measures how far thresholds that were found from few sizes are above those of hindsight, which
// were searched on the very arrivals that judge, and what hints are worth. It runs where SIGMA_BENCH names a
// file for its tables.
func TestAccuracy(t *testing.T) {
	if os.Getenv("SIGMA_BENCH") == "" {
		t.Skip("SIGMA_BENCH is not set")
	}
	var b strings.Builder
	b.WriteString("| J above hindsight, %: mean (worst of 4 samples) | load | fair sharing | equal loads | closed form | 300 flows: cmaes | random | 1,000 flows: cmaes | random | CPU-s a decision |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, name := range []string{"websearch_dctcp", "fb_hadoop_hpcc", "alibaba_storage_2019", "datamining_vl2"} {
		s := public(t, name)
		for _, load := range []float64{.6, .7, .8, .9} {
			held := NewProblem(s, load, 300_000, testSeed+100, nil)
			_, hindsight, err := held.Search(t.Context(), Search{Bands: 4, Budget: 150, Seed: 1})
			require.NoError(t, err)
			above := func(found flow.Thresholds) float64 { return 100 * (held.Value(found)/hindsight - 1) }
			fmt.Fprintf(&b, "| %s | %v | %.0f | %.1f | %.1f |", name, load, above(nil), above(EqualLoads(s, 4)), above(held.cascade(4)))
			most, decisions := 0., 0.
			for _, n := range []int{300, 1000} {
				for _, method := range []string{CMAES, Random} {
					mean, worst := 0., math.Inf(-1)
					for k := range uint64(4) {
						sample := seen(t, s, n, testSeed+k)
						before := cputime.Process()
						found, _, err := NewProblem(sample, load, Arrivals(load), testSeed+k, nil).Search(t.Context(), Search{Bands: 4, Method: method, Budget: DefaultBudget, Seed: k})
						require.NoError(t, err)
						if method == CMAES {
							most, decisions = most+cputime.Process()-before, decisions+1
						}
						v := above(found)
						mean, worst = mean+v/4, max(worst, v)
					}
					fmt.Fprintf(&b, " %.1f (%.1f) |", mean, worst)
				}
			}
			fmt.Fprintf(&b, " %.3f |\n", most/decisions)
		}
	}
	b.WriteString("\n| websearch_dctcp, load .8, 4 bands | mean ÷ without hints | slowdown ÷ without hints | 10 % of hints wrong: mean, slowdown | all wrong: mean ÷ without hints |\n|---|---|---|---|---|\n")
	s := public(t, "websearch_dctcp")
	search := func(h *sim.Hints) flow.Thresholds {
		found, _, err := NewProblem(s, .8, 100_000, 1, h).Search(t.Context(), Search{Bands: 4, Budget: 200, Seed: 1})
		require.NoError(t, err)
		return found
	}
	held := func(h *sim.Hints, found flow.Thresholds) (fct, slowdown float64) {
		return NewProblem(s, .8, 500_000, testSeed, h).Shares(found)
	}
	none, slowNone := held(nil, search(nil))
	for _, deviation := range []float64{0, .5, 1, 2} {
		found := search(&sim.Hints{Error: deviation})
		fct, slow := held(&sim.Hints{Error: deviation}, found)
		some, slowSome := held(&sim.Hints{Error: deviation, Wrong: .1}, found)
		all, _ := held(&sim.Hints{Error: deviation, Wrong: 1}, found)
		fmt.Fprintf(&b, "| log-error %v: %s | %.3f | %.3f | %+.1f %%, %+.1f %% | %.3f |\n", deviation, found, fct/none, slow/slowNone, 100*(some/fct-1), 100*(slowSome/slow-1), all/none)
	}
	t.Log("\n" + b.String())
	file, err := os.OpenFile(os.Getenv("SIGMA_BENCH"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	_, err = file.WriteString(b.String() + "\n")
	require.NoError(t, err)
	require.NoError(t, file.Close())
}
