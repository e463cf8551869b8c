package rollout

import (
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/learned/linear"
	"github.com/sigma-scheduler/sigma/binpack/packtest"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// rollout has the weights of the shipped policy unless others are given.
func rollout(t testing.TB, parameters map[string]float64) binpack.Policy {
	t.Helper()
	object, err := policy.Load(filepath.Join("..", "policies", "rollout-k1.yaml"))
	require.NoError(t, err)
	maps.Copy(object.Spec.Parameters, parameters)
	p, err := object.Policy()
	require.NoError(t, err)
	return p
}

// quick is enough to see what the roll-outs do.
var quick = map[string]float64{"futures": 4, "scenarios": 4, "effort": 2}

func decisions(t testing.TB, r *cerebro.Replayer, p binpack.Policy, order int) (cerebro.Run, []int32) {
	t.Helper()
	var where []int32
	run, err := r.Run(p, cerebro.Options{
		Order: order, Seed: 5, Check: true,
		Record: func(d cerebro.Decision) { where = append(where, d.Machine) },
	})
	require.NoError(t, err)
	require.Zero(t, run.Violations)
	return run, where
}

// forgetful makes a new scorer for every item and shuffles its candidates.
type forgetful struct{ binpack.Policy }

type forgetfulScorer struct {
	p   binpack.Policy
	s   *binpack.State
	rng *rand.Rand
}

func (p forgetful) Scorer(s *binpack.State) binpack.Scorer {
	return &forgetfulScorer{p.Policy, s, rand.New(rand.NewPCG(1, 1))}
}

func (l *forgetfulScorer) Score(item binpack.Item, candidates []int32, out []float64) {
	shuffled := slices.Clone(candidates)
	l.rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	scores := make([]float64, len(shuffled))
	l.p.Scorer(l.s).Score(item, shuffled, scores)
	for i, m := range candidates {
		out[i] = scores[slices.Index(shuffled, m)]
	}
}

// A decision depends on the state alone: a scorer that is made in the middle of a
// request and gets its candidates in another order decides like one that has seen
// all of it.
func TestRolloutDependsOnTheStateAlone(t *testing.T) {
	for seed := range uint64(3) {
		r := cerebro.NewReplayer(generated(t, "small", 1+seed, nil))
		p := rollout(t, quick)
		_, want := decisions(t, r, p, 1)
		_, got := decisions(t, r, forgetful{p}, 1)
		require.Equal(t, want, got)
		_, again := decisions(t, r, p, 1)
		require.Equal(t, want, again)
		other := maps.Clone(quick)
		other["seed"] = 1
		_, elsewhere := decisions(t, r, rollout(t, other), 1)
		require.NotEqual(t, want, elsewhere)
	}
}

// Roll-outs are worth more than the weights alone, and a total that is known
// and trusted is worth something too.
func TestRolloutNeedsFewerMachines(t *testing.T) {
	weights, err := linear.New(packtest.Shipped(t, "general-k1"))
	require.NoError(t, err)
	rolled := rollout(t, map[string]float64{"futures": 8, "scenarios": 6})
	var byWeights, byRollout int
	for seed := range uint64(8) {
		r := cerebro.NewReplayer(generated(t, "small", 500_001+seed, nil))
		for order := 1; order <= 2; order++ {
			a, _ := decisions(t, r, weights, order)
			b, _ := decisions(t, r, rolled, order)
			byWeights, byRollout = byWeights+a.Machines, byRollout+b.Machines
		}
	}
	t.Logf("%d machines by weights, %d by roll-outs, 240 at best", byWeights, byRollout)
	require.Less(t, byRollout, byWeights-4)
}

// Where apps come in parts, and in large fleets, the weights decide.
func TestRolloutLeavesOthersToTheWeights(t *testing.T) {
	weights, err := linear.New(packtest.Shipped(t, "general-k1"))
	require.NoError(t, err)
	p := rollout(t, quick)
	l := cerebro.NewReplayer(generated(t, "large", 3, map[string]string{"scale": ".3"}))
	_, want := decisions(t, l, weights, 1)
	_, got := decisions(t, l, p, 1)
	require.Equal(t, want, got)

	// From the first app that comes twice on.
	r := cerebro.NewReplayer(generated(t, "large", 3, map[string]string{"scale": ".1"}))
	_, err = r.Run(p, cerebro.Options{Order: 1, Seed: 5})
	require.NoError(t, err)
	s := r.State()
	require.False(t, p.Scorer(s).(*scorer).rolls(s.LastArrival()))
}

// All items are placed where roll-outs decide, with limits, rules with a
// maximum, spread, types and two dimensions, on open and fixed fleets.
func TestRolloutOnFixedFleets(t *testing.T) {
	for seed := range uint64(3) {
		tr := generated(t, "small", 1+seed, nil)
		tr.Instance.Fleet = binpack.Fixed
		tr.Instance.Machines[0].Count = 16
		tr.Instance.Rules[0].Max = 1
		tr.Instance.Groups[0].SpreadMin = 3
		run, _ := decisions(t, cerebro.NewReplayer(tr), rollout(t, quick), 1)
		require.LessOrEqual(t, run.Unplaced, 8)
		tr.Instance.Fleet = binpack.Open
		tr.Instance.Machines[0].Count = 18
		run, _ = decisions(t, cerebro.NewReplayer(tr), rollout(t, quick), 1)
		require.LessOrEqual(t, run.Unplaced, 4)
	}
}

// The terms of an explanation add up, and the one that counts for nothing is
// no worse where the decision wants the item than elsewhere.
func TestRolloutExplains(t *testing.T) {
	tr := generated(t, "small", 2, nil)
	r := cerebro.NewReplayer(tr)
	seen := 0
	for request := range int32(len(tr.Requests)) {
		e, err := r.Explain(rollout(t, quick), cerebro.Options{Order: 0}, request, 0)
		require.NoError(t, err)
		for _, c := range []*binpack.Candidate{e.Chosen, e.RunnerUp} {
			if c == nil {
				continue
			}
			sum := 0.0
			for _, term := range c.Terms {
				sum += term.Contribution
			}
			require.InDelta(t, c.Score, sum, 1e-9)
			expected := c.Terms[2]
			require.Equal(t, "machines expected in the end", expected.Name)
			require.Greater(t, expected.Value, 10.)
			require.Less(t, expected.Value, 25.)
			seen++
		}
		require.Equal(t, 1., e.Chosen.Terms[0].Value)
	}
	require.Greater(t, seen, len(tr.Requests))
}

// With σ small the forecast is the count; else the mean stays at the forecast.
func TestBelief(t *testing.T) {
	for _, e := range []float64{1, 2, 7, 12.4, 40} {
		b := newBelief(0, e, 0, 1)
		assert.Equal(t, int32(math.Round(e)), b.quantile(.5))
		b = newBelief(0, e, .2, 1)
		mean, sum := 0.0, 0.0
		for i, p := range b.p {
			mean += p * float64(int(b.first)+i)
			sum += p
		}
		assert.InDelta(t, 1, sum, 1e-9)
		assert.InDelta(t, e, mean, .05*e+.1, "%v", e)
		assert.Equal(t, b.first, b.quantile(0))
		assert.LessOrEqual(t, b.quantile(1), b.first+int32(len(b.p)))
	}
}

// A total that is trusted is met but for less than the smallest item; one that
// is half trusted, halfway.
func TestDraftsMeetTheTotal(t *testing.T) {
	r := &draws{7}
	var beliefs []belief
	volume := 0.0
	for a, e := range []float64{3, 12, 14, 6, 9, 5, 1} {
		size := []float64{1. / 24, 1. / 12, 1. / 24, 1. / 6, 1. / 12, 1. / 48, 1. / 24}[a]
		beliefs = append(beliefs, newBelief(int32(a), e, .2, size))
		volume += e * size
	}
	sum := func(d draft) (v float64) {
		for a, n := range d.counts {
			v += float64(n) * beliefs[a].size
		}
		return v
	}
	for _, d := range r.drafts(20, beliefs, 7, 1, 1+1.1*volume, 1) {
		assert.InDelta(t, 1.1*volume, sum(d), 1./48+1e-9)
		assert.Equal(t, 1+1.1*volume, d.volume)
	}
	free := (&draws{7}).drafts(200, beliefs, 7, 1, 2*volume, 0)
	half := (&draws{7}).drafts(200, beliefs, 7, 1, 1+1.2*volume, .5)
	mean := func(list []draft) (v float64) {
		for _, d := range list {
			v += sum(d) / float64(len(list))
		}
		return v
	}
	assert.InDelta(t, volume, mean(free), .06*volume)
	assert.InDelta(t, (mean(free)+1.2*volume)/2, mean(half), .01*volume)
}

// The search finds the planted packing of the true counts.
func TestFutureIsPacked(t *testing.T) {
	solved := 0
	for seed := range uint64(20) {
		tr := generated(t, "small", 1+seed, nil)
		s := binpack.NewState(tr.Instance)
		f := newFuture(s)
		require.Equal(t, []int{0}, f.dimensions) // memory never binds
		f.clear(&f.now)
		f.machines, f.usable = 15, 1<<15-1
		for _, q := range tr.Requests {
			f.want(&f.now, q.App, q.Count)
			f.loose = append(f.loose, q.App)
		}
		f.fill(&f.now, false, false)
		f.search(60)
		if f.now.out == 0 {
			solved++
			checkFuture(t, tr, f)
		}
	}
	require.GreaterOrEqual(t, solved, 18)
}

// checkFuture places what the future holds, under the rules of a state.
func checkFuture(t *testing.T, tr *trace.Trace, f *future) {
	t.Helper()
	c := binpack.NewChecker(tr.Instance)
	for m := range f.machines {
		for a := range f.apps {
			for range f.holds(&f.now, a, m) {
				require.NoError(t, c.Place(int32(a), 0, int32(m), nil))
			}
		}
	}
}

// A future is restored as a whole: what was ruined and filled again leaves the
// amounts of what stands.
func TestFutureAddsUp(t *testing.T) {
	tr := generated(t, "large2d", 1, map[string]string{"scale": ".1"})
	s := binpack.NewState(tr.Instance)
	f := newFuture(s)
	require.Equal(t, []int{0, 1}, f.dimensions)
	f.clear(&f.now)
	f.machines, f.usable = 24, 1<<24-1
	for _, q := range tr.Requests {
		if !slices.Contains(f.loose, q.App) {
			f.loose = append(f.loose, q.App)
		}
		f.want(&f.now, q.App, q.Count)
	}
	f.fill(&f.now, false, false)
	f.search(50)
	require.Positive(t, f.now.out)
	checkFuture(t, tr, f)
	out := int64(0)
	for a, n := range f.now.left {
		out += int64(n) * f.size[a]
	}
	require.Equal(t, out, f.now.out)
	for m := range f.machines {
		for i, d := range f.dimensions {
			free := f.capacity[i]
			for a := range f.apps {
				free -= int64(f.holds(&f.now, a, m)) * tr.Instance.Apps[a].Demand[d]
			}
			require.Equal(t, free, f.now.free[m*f.dims+i])
		}
	}
}

func BenchmarkRollout(b *testing.B) {
	r := cerebro.NewReplayer(generated(b, "small", 1, nil))
	p := rollout(b, nil)
	order := 0
	for b.Loop() {
		order++
		_, err := r.Run(p, cerebro.Options{Order: order, Seed: 1, Brief: true})
		require.NoError(b, err)
	}
}

func generated(t testing.TB, kind string, seed uint64, set map[string]string) *trace.Trace {
	t.Helper()
	tr, err := generate.Generate(kind, seed, set)
	require.NoError(t, err)
	return tr
}
