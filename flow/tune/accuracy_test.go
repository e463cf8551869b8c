package tune

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

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

var publicSets = []string{"websearch_dctcp", "fb_hadoop_hpcc", "alibaba_storage_2019", "datamining_vl2"}

// fewFlows measures how far thresholds that were found from few sizes are above those of hindsight, which
// were searched on the very arrivals that judge.
func (r *records) fewFlows(t *testing.T) {
	b := &r.details
	b.WriteString("| J above hindsight, %: mean (worst of 4 samples) | load | fair sharing | equal loads | closed form | 300 flows: cmaes | random | 1,000 flows: cmaes | random | CPU-s a decision |\n|---|---|---|---|---|---|---|---|---|---|\n")
	worst, dearest := map[int]float64{}, 0.
	for _, name := range publicSets {
		s := public(t, name)
		for _, load := range []float64{.6, .7, .8, .9} {
			held := NewProblem(s, load, 300_000, testSeed+100, nil)
			_, hindsight, err := held.Search(t.Context(), Search{Bands: 4, Budget: 150, Seed: 1})
			require.NoError(t, err)
			above := func(found flow.Thresholds) float64 { return 100 * (held.Value(found)/hindsight - 1) }
			fmt.Fprintf(b, "| %s | %v | %.0f | %.1f | %.1f |", name, load, above(nil), above(EqualLoads(s, 4)), above(held.cascade(4)))
			most, decisions := 0., 0.
			for _, n := range []int{300, 1000} {
				for _, method := range []string{CMAES, Random} {
					mean, most4 := 0., math.Inf(-1)
					for k := range uint64(4) {
						sample := seen(t, s, n, testSeed+k)
						before := cputime.Process()
						found, _, err := NewProblem(sample, load, Arrivals(load), testSeed+k, nil).Search(t.Context(), Search{Bands: 4, Method: method, Budget: DefaultBudget, Seed: k})
						require.NoError(t, err)
						if method == CMAES {
							most, decisions = most+cputime.Process()-before, decisions+1
						}
						v := above(found)
						mean, most4 = mean+v/4, max(most4, v)
					}
					if method == CMAES {
						worst[n] = max(worst[n], most4)
					}
					fmt.Fprintf(b, " %.1f (%.1f) |", mean, most4)
				}
			}
			dearest = max(dearest, most/decisions)
			fmt.Fprintf(b, " %.3f |\n", most/decisions)
		}
	}
	r.judge("J above hindsight after 300 flows, %, worst", atMost, 4, 2, worst[300])
	r.judge("after 1,000 flows, %, worst", atMost, 2, 1, worst[1000])
	r.judge("CPU of one decision, s, dearest", atMost, .5, .1, dearest)
	b.WriteString("\n")
}

// otherWays measures what else was tried to come nearer to hindsight with 300 flows, on seeds to develop on.
func (r *records) otherWays(t *testing.T) {
	const samples = 12
	b := &r.details
	fmt.Fprintf(b, "| J above hindsight after 300 flows, %%: mean (worst of %d samples) | load | as it is | twice the arrivals | half way to the closed form | median of 8 resampled windows |\n|---|---|---|---|---|---|\n", samples)
	for _, c := range []struct {
		name string
		load float64
	}{{"websearch_dctcp", .8}, {"fb_hadoop_hpcc", .7}, {"fb_hadoop_hpcc", .9}, {"alibaba_storage_2019", .9}, {"datamining_vl2", .7}} {
		s := public(t, c.name)
		held := NewProblem(s, c.load, 300_000, 500_100, nil)
		_, hindsight, err := held.Search(t.Context(), Search{Bands: 4, Budget: 150, Seed: 1})
		require.NoError(t, err)
		find := func(sizes *flow.Sizes, n, budget int, seed uint64) flow.Thresholds {
			found, _, err := NewProblem(sizes, c.load, n, seed, nil).Search(t.Context(), Search{Bands: 4, Budget: budget, Seed: seed})
			require.NoError(t, err)
			return found
		}
		var mean, worst [4]float64
		for k := range uint64(samples) {
			seed := 500_000 + k
			sample := seen(t, s, 300, seed)
			n := Arrivals(c.load)
			asIs := find(sample, n, DefaultBudget, seed)
			var resampled []flow.Thresholds
			for j := range uint64(8) {
				// Sizes drawn from the window's, as many as it has.
				resampled = append(resampled, find(seen(t, sample, 300, seed+1000*(j+1)), n/4, 60, seed))
			}
			for i, found := range []flow.Thresholds{
				asIs,
				find(sample, 2*n, DefaultBudget, seed),
				middle(asIs, NewProblem(sample, c.load, n, seed, nil).cascade(4)),
				middle(resampled...),
			} {
				v := 100 * (held.Value(found)/hindsight - 1)
				mean[i], worst[i] = mean[i]+v/samples, max(worst[i], v)
			}
		}
		fmt.Fprintf(b, "| %s | %v |", c.name, c.load)
		for i := range mean {
			fmt.Fprintf(b, " %.1f (%.1f) |", mean[i], worst[i])
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

// middle is the median of each threshold, in logarithms.
func middle(sets ...flow.Thresholds) flow.Thresholds {
	x := make([]float64, len(sets[0]))
	for d := range x {
		logs := make([]float64, len(sets))
		for i, t := range sets {
			logs[i] = math.Log(float64(t[d]))
		}
		slices.Sort(logs)
		x[d] = (logs[(len(logs)-1)/2] + logs[len(logs)/2]) / 2
	}
	return thresholds(x)
}

// changes measures a window that has seen one set for long, 250 flows after another one has taken its place.
func (r *records) changes(t *testing.T) {
	const load = .8
	b := &r.details
	b.WriteString("| J above hindsight, %, load .8: 250 flows after the sizes changed, mean of 3 samples | to " + strings.Join(publicSets, " | to ") + " |\n|---|---|---|---|---|\n")
	helds, hindsight := make([]*Problem, len(publicSets)), make([]float64, len(publicSets))
	for i, name := range publicSets {
		helds[i] = NewProblem(public(t, name), load, 300_000, testSeed+100, nil)
		var err error
		_, hindsight[i], err = helds[i].Search(t.Context(), Search{Bands: 4, Budget: 150, Seed: 1})
		require.NoError(t, err)
	}
	const samples = 3
	sum, stale, count, worst := 0., 0., 0., 0.
	for i, from := range publicSets {
		fmt.Fprintf(b, "| from %s |", from)
		for k := range publicSets {
			if i == k {
				b.WriteString(" |")
				continue
			}
			mean := 0.
			for n := range uint64(samples) {
				var w flow.Window
				rng := rand.New(rand.NewPCG(testSeed+n, uint64(4*i+k)))
				d := flow.Decider{Bands: 4, Tuner: Tuner{}}
				now := time.Unix(0, 0)
				for _, phase := range []struct {
					sizes *flow.Sizes
					flows int
				}{{helds[i].Sizes, flow.WindowSizes}, {helds[k].Sizes, flow.WindowStep}} {
					for range phase.flows {
						_, err := w.Add(max(1, phase.sizes.Quantile(rng.Float64())))
						require.NoError(t, err)
					}
					if phase.flows == flow.WindowStep {
						stale += 100 * (helds[k].Value(d.Present)/hindsight[k] - 1)
					}
					now = now.Add(time.Minute)
					_, err := d.Decide(now, &w, load)
					require.NoError(t, err)
				}
				v := 100 * (helds[k].Value(d.Present)/hindsight[k] - 1)
				mean, sum, count, worst = mean+v/samples, sum+v, count+1, max(worst, v)
			}
			fmt.Fprintf(b, " %.1f |", mean)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(b, "\nThe worst single one is %.1f %%. With the thresholds of before it is %.1f %% in the mean.\n\n", worst, stale/count)
	r.judge("250 flows after a change of sizes, %, mean", atMost, 5, 2, sum/count)
}

// hints measures what estimates of sizes are worth.
func (r *records) hints(t *testing.T) {
	b := &r.details
	b.WriteString("| websearch_dctcp, load .8, 4 bands | mean ÷ without hints | slowdown ÷ without hints | 10 % of hints wrong: mean, slowdown | all wrong: mean ÷ without hints |\n|---|---|---|---|---|\n")
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
		fmt.Fprintf(b, "| log-error %v: %s | %.3f | %.3f | %+.1f %%, %+.1f %% | %.3f |\n", deviation, found, fct/none, slow/slowNone, 100*(some/fct-1), 100*(slowSome/slow-1), all/none)
		switch deviation {
		case .5:
			r.judge("hints, log-error .5: mean ÷ bands without", atMost, .80, .72, fct/none)
			r.judge("10 % of these shuffled: mean above, %", atMost, 3, 2, 100*(some/fct-1))
			r.judge("… slowdown above, %", atMost, 6, 3, 100*(slowSome/slow-1))
			r.judge("all of these shuffled: mean above none, %", atMost, 15, 5, 100*(all/none-1))
		case 1:
			r.judge("hints, log-error 1: mean ÷ bands without", atMost, .86, .78, fct/none)
		}
	}
	b.WriteString("\n")
}
