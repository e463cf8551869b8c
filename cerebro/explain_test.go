package cerebro_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// explained are the built-in policies and linear ones in all their ways: at
// each level, with and without a target, with weights for dimensions.
func explained(t *testing.T, dimension string) []named {
	list := policies(t)
	add := func(name string, spec policy.Spec) {
		object := policy.Object{APIVersion: policy.APIVersion, Kind: policy.ObjectKind, Metadata: policy.Metadata{Name: "p"}, Spec: spec}
		object.Spec.FeatureVersion = policy.FeatureVersion
		p, err := object.Policy()
		require.NoError(t, err)
		list = append(list, named{name, p})
	}
	add("dimension", policy.Spec{
		Model: "linear", Knowledge: "K0", Features: []string{"util:" + dimension, "close", "slot", "full"},
		Weights: []float64{.7, -.4, -.3, .2}, Parameters: map[string]float64{"alpha": .8},
	})
	add("plain", policy.Spec{Model: "linear", Knowledge: "K0", Features: []string{"util", "open"}, Weights: []float64{100, -100}})
	add("plan", policy.Spec{Model: "plan", Knowledge: "K2"})
	return list
}

// TestExplain: for random items of random traces under every policy the machine
// is that of the replay, the terms add up to the score, and the rejected
// machines with the candidates are all.
func TestExplain(t *testing.T) {
	traces := []*trace.Trace{}
	for seed := range uint64(12) {
		traces = append(traces, randomTrace(rand.New(rand.NewPCG(seed, 21)), seed%3 == 1))
	}
	for kind, set := range map[string]map[string]string{
		"small": nil, "large": {"scale": ".05"}, "fixed": {"scale": ".05", "f": ".95"}, "churn": {"scale": ".05", "days": "1"},
	} {
		tr, err := generate.Generate(kind, 5, set)
		require.NoError(t, err)
		traces = append(traces, tr)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	terms, held, targets, ties, unplaced := 0, 0, 0, 0, 0
	for i, tr := range traces {
		r := cerebro.NewReplayer(tr)
		for _, p := range explained(t, tr.Instance.Dimensions[0].Name) {
			opt := cerebro.Options{Order: rng.IntN(3), Seed: 5, Retry: rng.IntN(2) == 0, Fallback: rule.BestFit{}}
			first := map[[2]int32]cerebro.Decision{}
			opt.Record = func(d cerebro.Decision) {
				key := [2]int32{d.Request, d.Item}
				if _, ok := first[key]; !ok && d.Kind != cerebro.Remove {
					first[key] = d
				}
			}
			_, err := r.Run(p, opt)
			require.NoError(t, err)
			opt.Record = nil
			for range 6 {
				request := rng.Int32N(int32(len(tr.Requests)))
				number := rng.Int32N(tr.Requests[request].Count)
				want, ok := first[[2]int32{request, number}]
				require.True(t, ok)
				where := fmt.Sprintf("trace %d %s, %s, order %d, request %d item %d", i, tr.Name, p.name, opt.Order, request, number)
				e, err := r.Explain(p, opt, request, number)
				require.NoError(t, err, where)
				rejected := 0
				for _, n := range e.Rejected {
					rejected += n
				}
				require.Equal(t, e.Offered, rejected+e.Candidates, where)
				require.Equal(t, want.Time, e.Time, where)
				if want.Machine < 0 {
					require.Nil(t, e.Chosen, where)
					require.Zero(t, e.Candidates, where)
					unplaced++
					continue
				}
				require.Equal(t, want.Machine, e.Chosen.Machine, where)
				require.Equal(t, e.Candidates > 1, e.RunnerUp != nil, where)
				terms += sums(t, e.Chosen, where)
				if e.RunnerUp != nil {
					require.GreaterOrEqual(t, e.Chosen.Score, e.RunnerUp.Score, where)
					require.Equal(t, e.Tied > 0, e.Chosen.Score == e.RunnerUp.Score, where)
					terms += sums(t, e.RunnerUp, where)
					require.Len(t, e.RunnerUp.Terms, len(e.Chosen.Terms))
				}
				if e.Tied > 0 {
					ties++
				}
				if e.Fleet != nil {
					require.NotEmpty(t, e.Fleet.Why)
					targets += len(e.Fleet.Wanted)
					if e.Fleet.KeptBack {
						held++
					}
				}
			}
		}
	}
	t.Log(terms, held, targets, ties, unplaced)
	for _, n := range []int{terms - 1000, held - 50, targets - 50, ties - 50, unplaced - 20} {
		require.Positive(t, n) // else little was tried
	}
}

// sums checks that contributions add up, to the rounding of a sum of their size.
func sums(t *testing.T, c *binpack.Candidate, where string) int {
	t.Helper()
	sum, size := 0.0, 1.0
	for _, term := range c.Terms {
		sum += term.Contribution
		size += math.Abs(term.Contribution)
	}
	if len(c.Terms) > 0 {
		require.InDelta(t, c.Score, sum, 1e-12*size, "%s: %+v", where, c.Terms)
	}
	return len(c.Terms)
}

func TestExplainRefuses(t *testing.T) {
	tr := randomTrace(rand.New(rand.NewPCG(3, 3)), false)
	r := cerebro.NewReplayer(tr)
	for _, c := range []struct {
		request, item int32
		want          string
	}{
		{-1, 0, "request -1: there are"},
		{int32(len(tr.Requests)), 0, "there are"},
		{0, tr.Requests[0].Count, `request "r0" has the items 0 to`},
		{0, -1, "not -1"},
	} {
		_, err := r.Explain(rule.BestFit{}, cerebro.Options{}, c.request, c.item)
		require.ErrorContains(t, err, c.want)
	}
	_, err := r.Explain(broken{}, cerebro.Options{}, 0, 0)
	require.NoError(t, err) // the lowest position decides
	e, err := r.Explain(broken{}, cerebro.Options{Fallback: rule.BestFit{}}, 0, 0)
	require.NoError(t, err)
	require.True(t, e.Fallback)
	require.NotEmpty(t, e.Chosen.Terms)
}

// broken scores nothing finite.
type broken struct{}

func (broken) Knowledge() binpack.Knowledge         { return binpack.K0 }
func (broken) Scorer(*binpack.State) binpack.Scorer { return broken{} }
func (broken) Score(_ binpack.Item, _ []int32, out []float64) {
	for i := range out {
		out[i] = math.NaN()
	}
}
