package linear

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/learned"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// linearTwin scores from the definitions of the features: plain loops over the
// same state, no cache, nothing kept between calls but scratch memory. It is
// what the incremental scorer must equal, and what its speed is held against.
type linearTwin struct {
	p   *Policy
	s   *binpack.State
	l   *Scorer // for its compiled tables only
	fit []int32 // places per app
	pr  []int64 // pressure per app
}

func newTwin(p *Policy, s *binpack.State) *linearTwin {
	n := len(s.Instance().Apps)
	return &linearTwin{p: p, s: s, l: NewScorer(p, s), fit: make([]int32, n), pr: make([]int64, n)}
}

func (t *linearTwin) allows(b, m int32) bool {
	return t.s.Blocked(b)[m>>6]>>(m&63)&1 == 0
}

func fits(s *binpack.State, demand []int64, m int32, less []int64) bool {
	for d, n := range demand {
		free := s.Free(d)[m]
		if less != nil {
			free -= less[d]
		}
		if n > free {
			return false
		}
	}
	return true
}

func (t *linearTwin) Score(item binpack.Item, candidates []int32, out []float64) {
	s, inst, w := t.s, t.s.Instance(), t.p.weights
	d := t.l.d
	d.reload()
	t.l.planFleet()
	fixed := inst.Fleet == binpack.Fixed
	for b := range inst.Apps {
		t.fit[b] = 0
		if !t.l.slots {
			continue
		}
		for m := range int32(s.Size()) {
			if (fixed || s.Items(m) > 0) && t.allows(int32(b), m) && fits(s, t.l.shapes[t.l.shapeOf[b]], m, nil) {
				t.fit[b]++
			}
		}
		t.l.places[b] = t.fit[b]
		t.pr[b] = t.l.pressureOf(int32(b))
	}
	a := item.App
	need := inst.Apps[a].Demand
	rc := float64(d.sumRC)/(1<<(itemBits+shareBits)) + 1
	singl := float64(w[fTight] * max(0, 2*min(1, t.limitBound()/float64(s.Active()+1))-1))
	if w[fSingl] != 0 && inst.Groups[inst.Apps[a].Group].Limit == 1 {
		singl += float64(w[fSingl] * min(1, float64(d.remaining[a])/(1<<itemBits)/float64(s.Active()+1)))
	}
	open := 0.0
	if n := len(inst.Apps); n > 1 {
		open = w[fOpen] / float64(n-1)
	}
	for i, m := range candidates {
		capacity := s.Capacity(m)
		top, before, sum, least, base := 0.0, 0.0, 0.0, math.Inf(1), 0.0
		dims := 0
		for k, n := range need {
			if capacity[k] == 0 {
				continue
			}
			free := float64(s.Free(k)[m]-n) * (1 / float64(capacity[k]))
			top, least = max(top, 1-free), min(least, free)
			before = max(before, 1-float64(float64(s.Free(k)[m])*(1/float64(capacity[k]))))
			sum += 1 - free
			dims++
			base += float64(t.p.dimWeights[inst.Dimensions[k].Name] * (1 - free))
		}
		base += float64(w[fUtil]*top) + float64(w[fMean]*(sum/max(1, float64(dims))))
		if w[fRise] != 0 {
			base += float64(w[fRise] * (top - before))
		}
		if least == 0 {
			base += w[fFull]
		} else if least < smallShare {
			base += w[fFrag]
		}
		if s.Items(m) == 0 {
			base += w[fEmpty]
		}
		v := base + float64(singl*top)
		if s.Items(m) == 0 && t.l.keepBack() {
			v = -learned.EmptyPenalty
		}
		if t.l.slots {
			lost := int64(0)
			any := false
			for b := range inst.Apps {
				shape := t.l.shapes[t.l.shapeOf[b]]
				if fits(s, shape, m, nil) && !fits(s, shape, m, need) {
					any = true
					if int32(b) != a && t.allows(int32(b), m) {
						lost += t.pr[b]
					}
				}
			}
			if any {
				v += float64(w[fSlot] * .25 / (1 << pressureBits) * float64(lost))
			}
		}
		if open != 0 {
			allowed := 0
			for b := range inst.Apps {
				if t.allows(int32(b), m) {
					allowed++
				}
			}
			v += float64(open * float64(allowed-1))
		}
		if last := s.LastUsed(m); last > 0 && w[fRecent] != 0 {
			v += w[fRecent] / (1 + float64((float64(s.Placements())-float64(last))/float64(s.Active()+1)))
		}
		if s.Items(m) == 0 && t.l.keepBack() {
			out[i] = t.close(v, a, m, open, rc)
			continue
		}
		out[i] = t.close(v+t.standing(a, m, top), a, m, open, rc)
	}
}

// close adds what the placement closes the machine to.
func (t *linearTwin) close(v float64, a, m int32, open, rc float64) float64 {
	w := t.p.weights
	if w[fClose] == 0 && w[fClosing] == 0 && open == 0 {
		return v
	}
	closing := 4 * w[fClosing] / rc / (1 << (itemBits + shareBits))
	fixed := w[fClose]/max(1, t.l.maxDegree) - open
	value := func(b int32) float64 {
		return fixed + float64(closing*float64(t.l.d.remaining[b]*t.l.d.dominant[b]))
	}
	if len(t.l.near[a]) > 0 {
		sum := 0.0
		for _, b := range t.l.near[a] {
			sum += value(b)
		}
		v += sum
		for _, b := range t.l.near[a] {
			if !t.allows(b, m) {
				v -= value(b)
			}
		}
	}
	group := t.s.Instance().Apps[a].Group
	for _, f := range t.l.far[a] {
		if t.allows(f.app, m) && t.s.Count(group, m)+1 >= f.own && t.s.Count(f.group, m) >= f.others {
			v += value(f.app)
		}
	}
	return v
}

// everyFeature is a policy with all features and odd weights.
func everyFeature(t testing.TB, know binpack.Knowledge, arrivals bool) *Policy {
	t.Helper()
	spec := learned.Spec{
		Knowledge:  know,
		Features:   append(slices.DeleteFunc(Model.FeatureNames(), func(name string) bool { return name == "press" }), "util:cpu"),
		Weights:    []float64{-.31, .17, -.37, -.2, .3, -.05, .11, -.8, .5, .13, -.19, .041, -.023, .019, .067, .07, -.083, -.061, .23, -.9, .021},
		Parameters: map[string]float64{"eta": 1.7, "z": -.1, "q": 1.2},
	}
	if arrivals {
		spec.Parameters["alpha"] = 1.1
	}
	p, err := New(spec)
	require.NoError(t, err)
	return p
}

// TestLinearEqualsTwin replays generated traces step by step: every score of
// the incremental scorer equals that of the plain loop, bit by bit.
func TestLinearEqualsTwin(t *testing.T) {
	for _, tc := range []struct {
		kind string
		set  map[string]string
	}{
		{"small", nil},
		{"large", map[string]string{"scale": ".05"}},
		{"large2d", map[string]string{"scale": ".05"}},
		{"fixed", map[string]string{"scale": ".05", "f": ".95"}},
		{"churn", map[string]string{"scale": ".05", "days": "1"}},
		{"small", map[string]string{"total": "known"}}, // with one dimension, below
	} {
		for _, k := range []binpack.Knowledge{binpack.K0, binpack.K0Clock, binpack.K1, binpack.K1Clock, binpack.K2} {
			t.Run(fmt.Sprintf("%s/%s", tc.kind, k), func(t *testing.T) {
				tr, err := generate.Generate(tc.kind, 17, tc.set)
				require.NoError(t, err)
				if len(tc.set) == 1 && tc.set["total"] != "" {
					oneDimension(tr.Instance)
				}
				addRules(tr.Instance)
				p := everyFeature(t, k, !k.Forecast() && k != binpack.K2)
				compareWithTwin(t, tr, p)
			})
		}
	}
}

// oneDimension leaves the first dimension.
func oneDimension(inst *binpack.Instance) {
	inst.Dimensions = inst.Dimensions[:1]
	for a := range inst.Apps {
		inst.Apps[a].Demand = inst.Apps[a].Demand[:1]
	}
	for m := range inst.Machines {
		inst.Machines[m].Capacity = inst.Machines[m].Capacity[:1]
	}
}

// addRules makes some rules directional and countable, so that all of the
// constraint arithmetic is met, and lets some apps talk to each other.
func addRules(inst *binpack.Instance) {
	n := int32(len(inst.Groups))
	for g := int32(0); g+3 < n; g += 7 {
		inst.Rules = append(inst.Rules, binpack.Rule{A: g, B: g + 3, Max: 1}, binpack.Rule{A: g + 2, B: g, Max: 2})
	}
	for a := int32(0); int(a)+3 < len(inst.Apps); a += 4 {
		inst.Pairs = append(inst.Pairs, binpack.Pair{App: a, Other: a + 3, Bits: 1e6}, binpack.Pair{App: a + 1, Other: a, Bits: 3e6, Paired: true},
			binpack.Pair{App: a + 2, Other: a + 2, Bits: 7e5}, binpack.Pair{App: a + 2, Other: a, Bits: 11})
	}
}

func compareWithTwin(t *testing.T, tr *trace.Trace, p *Policy) {
	t.Helper()
	s := binpack.NewState(tr.Instance)
	s.Known = knownOf(tr, p.know)
	scorer, twin := NewScorer(p, s), newTwin(p, s)
	rng := rand.New(rand.NewPCG(5, 5))
	where := map[int32][]int32{} // request → machines
	var cand []int32
	events := tr.Events[:min(len(tr.Events), 700)]
	for i, e := range events {
		q := tr.Requests[e.Request]
		if e.Kind == trace.Delete {
			stand := where[e.Request]
			for range min(int(e.Count), len(stand)) {
				s.Remove(q.App, stand[len(stand)-1], nil)
				stand = stand[:len(stand)-1]
			}
			where[e.Request] = stand
			continue
		}
		if p.know.Clock() {
			s.Known.Elapsed = float64(i) / float64(len(events))
		}
		s.Arrive(q.App, q.Count)
		for range q.Count {
			cand = s.Feasible(q.App, cand[:0])
			if len(cand) == 0 {
				continue
			}
			got, want := make([]float64, len(cand)), make([]float64, len(cand))
			item := binpack.Item{App: q.App}
			scorer.Score(item, cand, got)
			if i%3 == 0 || i > 500 {
				twin.Score(item, cand, want)
				require.Equal(t, want, got, "event %d, app %d", i, q.App)
			}
			best := 0
			for j := range got {
				if got[j] > got[best] {
					best = j
				}
			}
			if rng.IntN(4) == 0 {
				best = rng.IntN(len(cand)) // somebody else places, too
			}
			s.Place(item, cand[best], nil)
			where[e.Request] = append(where[e.Request], cand[best])
		}
	}
}

func knownOf(tr *trace.Trace, k binpack.Knowledge) binpack.Known {
	known := binpack.Known{Elapsed: -1}
	total := make([]int64, len(tr.Instance.Apps))
	for _, q := range tr.Requests {
		total[q.App] += int64(q.Count)
	}
	for _, app := range tr.Instance.Apps {
		if k.Forecast() {
			known.Expected = append(known.Expected, app.Expected)
		}
	}
	if k == binpack.K2 {
		known.Total = total
	}
	if k.Clock() {
		known.Elapsed = 0
	}
	return known
}

// onlyScores hides the Contenders of a scorer.
type onlyScores struct{ binpack.Scorer }

// TestContenders replays generated traces: with contenders alone scored and with
// all machines, Choose decides the same.
func TestContenders(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	shortlisted, scored := 0, 0
	for _, tc := range []struct {
		kind string
		set  map[string]string
	}{
		{"small", nil},
		{"large", map[string]string{"scale": ".2"}},
		{"large3d", map[string]string{"scale": ".1"}},
		{"fixed", map[string]string{"scale": ".1", "f": ".95"}},
		{"churn", map[string]string{"scale": ".1", "days": "1"}},
	} {
		for round := range 10 {
			tr, err := generate.Generate(tc.kind, uint64(round), tc.set)
			require.NoError(t, err)
			if round%2 == 0 {
				addRules(tr.Instance)
				tr.Instance.Groups[0].SpreadMin = 4
			}
			p := everyFeature(t, []binpack.Knowledge{binpack.K0, binpack.K1, binpack.K1Clock}[round%3], round%3 == 0)
			if round > 0 {
				for f := range p.weights {
					p.weights[f] = float64(rng.IntN(3)) * rng.NormFloat64()
				}
				p.weights[fSlot] = -math.Abs(p.weights[fSlot])
			}
			if round%4 > 0 { // what stands on a machine is bounded loosely
				clear(p.weights[fAge : fPartners+1])
			}
			p.emptyLast = round%3 == 1
			a, b := contenders(t, tr, p, rng)
			shortlisted, scored = shortlisted+a, scored+b
		}
	}
	t.Log(shortlisted, scored)
	require.Less(t, float64(shortlisted), .8*float64(scored), "bounds save nothing")
}

func contenders(t *testing.T, tr *trace.Trace, p *Policy, rng *rand.Rand) (shortlisted, scored int) {
	t.Helper()
	s := binpack.NewState(tr.Instance)
	s.Known = knownOf(tr, p.know)
	scorer := NewScorer(p, s)
	scorer.maxCached = 0 // a grid
	plain := onlyScores{NewScorer(p, s)}
	where := map[int32][]int32{} // request → machines
	for i, e := range tr.Events[:min(len(tr.Events), 1500)] {
		q := tr.Requests[e.Request]
		if e.Kind == trace.Delete {
			if stand := where[e.Request]; len(stand) > 0 {
				s.Remove(q.App, stand[len(stand)-1], nil)
				where[e.Request] = stand[:len(stand)-1]
			}
			continue
		}
		if p.know.Clock() {
			s.Known.Elapsed = float64(i) / float64(len(tr.Events))
		}
		s.Arrive(q.App, q.Count)
		for range q.Count {
			item := binpack.Item{App: q.App}
			want, failure := s.Choose(plain, item)
			got, err := s.Choose(scorer, item)
			require.Equal(t, failure, err)
			require.Equal(t, want, got, "event %d", i)
			if err != nil {
				continue
			}
			all := s.Feasible(q.App, nil)
			some, known := scorer.Contenders(item, nil)
			if known {
				require.Subset(t, all, some)
				shortlisted, scored = shortlisted+len(some), scored+len(all)
			}
			if rng.IntN(8) == 0 {
				got = all[rng.IntN(len(all))] // somebody else places, too
			}
			s.Place(item, got, nil)
			where[e.Request] = append(where[e.Request], got)
		}
	}
	return shortlisted, scored
}

// Empty machines of a fixed fleet are kept back only while those in use have room to spare.
func TestSpareRoom(t *testing.T) {
	p, err := New(learned.Spec{Features: []string{"util"}, Weights: []float64{-1}})
	require.NoError(t, err)
	for demand, want := range map[int64]int32{5: 0, 8: 0, 9: 1} {
		s := binpack.NewState(&binpack.Instance{
			Fleet: binpack.Fixed, Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}}, Types: []string{""},
			Machines: []binpack.MachineLine{{Name: "m", Count: 3, Cost: 1, Capacity: []int64{10}}},
			Groups:   []binpack.Group{{Name: "a"}, {Name: "b"}},
			Apps: []binpack.App{
				{Name: "a", Demand: []int64{demand}, Expected: -1, Lifetime: -1},
				{Name: "b", Group: 1, Demand: []int64{1}, Expected: -1, Lifetime: -1},
			},
		})
		scorer := p.EmptyLast().Scorer(s)
		s.Arrive(0, 1)
		s.Place(binpack.Item{}, 0, nil)
		m, err := s.Choose(scorer, binpack.Item{App: 1})
		require.NoError(t, err)
		require.Equal(t, want, m, "%d of 10 in use", demand)
	}
}
