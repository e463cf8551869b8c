package binpack_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
)

// everyPolicy runs a test for all policies that have a name.
func everyPolicy(t *testing.T, test func(t *testing.T, pol binpack.Policy)) {
	t.Helper()
	for _, name := range rule.Names() {
		pol, err := rule.ByName(name, rule.Options{Seed: 5})
		require.NoError(t, err)
		t.Run(name, func(t *testing.T) { test(t, pol) })
	}
	for _, name := range []string{"mostallocated", "leastallocated", "requestedtocapacityratio", "balancedallocation"} {
		pol, err := rule.ByName(name, rule.Options{TiesByPosition: true})
		require.NoError(t, err)
		t.Run(name+"/position", func(t *testing.T) { test(t, pol) })
	}
}

// run lets a policy place and remove items at random and calls look before each
// decision.
func run(inst *binpack.Instance, pol binpack.Policy, seed uint64, steps int, look func(*binpack.State, binpack.Scorer, binpack.Item)) []string {
	d := seeded(seed)
	s := binpack.NewState(inst)
	scorer := pol.Scorer(s)
	var standing []place
	var log []string
	for i := range steps {
		if d.IntN(4) == 0 && len(standing) > 0 {
			at := d.IntN(len(standing))
			p := standing[at]
			s.Remove(p.app, s.MachineAt(p.line, p.index), p.devices)
			standing = slices.Delete(standing, at, at+1)
			continue
		}
		item := binpack.Item{App: int32(d.IntN(len(inst.Apps))), Serial: uint64(i)}
		s.Arrive(item.App, 1)
		look(s, scorer, item)
		m, err := s.Choose(scorer, item)
		if err != nil {
			log = append(log, err.Error())
			continue
		}
		line, index := s.Position(m)
		chooser, _ := scorer.(binpack.DeviceChooser)
		devices := slices.Clone(s.Place(item, m, chooser))
		standing = append(standing, place{item.App, line, index, devices})
		log = append(log, fmt.Sprint(item.App, " ", line, "/", index, devices))
	}
	return log
}

func nothing(*binpack.State, binpack.Scorer, binpack.Item) {}

// TestScores: finite, the same in any order of candidates and for a scorer that
// has seen nothing; the chosen machine has the top score and, among those, the
// lowest position.
func TestScores(t *testing.T) {
	everyPolicy(t, func(t *testing.T, pol binpack.Policy) {
		decisions := 0
		for seed := range uint64(60) {
			rng := rand.New(rand.NewPCG(seed, 9))
			run(randomInstance(seeded(seed), true), pol, seed, 50, func(s *binpack.State, scorer binpack.Scorer, item binpack.Item) {
				machines := s.Feasible(item.App, nil)
				if len(machines) == 0 {
					return
				}
				decisions++
				chosen, err := s.Choose(scorer, item)
				require.NoError(t, err)
				score := map[int32]float64{}
				out := make([]float64, len(machines))
				scorer.Score(item, machines, out)
				for i, m := range machines {
					require.False(t, math.IsNaN(out[i]) || math.IsInf(out[i], 0))
					score[m] = out[i]
				}
				for _, m := range machines {
					require.GreaterOrEqual(t, score[chosen], score[m])
					if score[m] == score[chosen] {
						require.False(t, s.Before(m, chosen))
					}
				}
				rng.Shuffle(len(machines), func(i, j int) { machines[i], machines[j] = machines[j], machines[i] })
				for _, sc := range []binpack.Scorer{scorer, pol.Scorer(s)} {
					sc.Score(item, machines, out)
					for i, m := range machines {
						require.Equal(t, math.Float64bits(score[m]), math.Float64bits(out[i]))
					}
				}
			})
		}
		require.Greater(t, decisions, 500)
	})
}

// TestMetamorphic: a change of unit, a machine that nothing fits and other
// names change no decision.
func TestMetamorphic(t *testing.T) {
	everyPolicy(t, func(t *testing.T, pol binpack.Policy) {
		for seed := range uint64(60) {
			inst := somethingAsked(randomInstance(seeded(seed), true))
			want := run(inst, pol, seed, 50, nothing)
			require.Equal(t, want, run(scaled(inst, 3), pol, seed, 50, nothing), "unit")
			require.Equal(t, want, run(scaled(inst, 1024), pol, seed, 50, nothing), "unit")
			require.Equal(t, want, run(withUseless(inst), pol, seed, 50, nothing), "useless machine")
			require.Equal(t, want, run(renamed(inst), pol, seed, 50, nothing), "names")
		}
	})
}

// somethingAsked leaves no item without demand: it would fit a useless machine.
func somethingAsked(inst *binpack.Instance) *binpack.Instance {
	for a := range inst.Apps {
		inst.Apps[a].Demand[0] = max(inst.Apps[a].Demand[0], 1)
	}
	return inst
}

// scaled has factor times as many units in everything.
func scaled(inst *binpack.Instance, factor int64) *binpack.Instance {
	times := func(amounts []int64) []int64 {
		amounts = slices.Clone(amounts)
		for d := range amounts {
			amounts[d] *= factor
		}
		return amounts
	}
	other := *inst
	other.Dimensions = slices.Clone(inst.Dimensions)
	for d := range other.Dimensions {
		other.Dimensions[d].One *= factor
	}
	other.Machines = slices.Clone(inst.Machines)
	for i := range other.Machines {
		other.Machines[i].Capacity = times(other.Machines[i].Capacity)
	}
	other.Apps = slices.Clone(inst.Apps)
	for i := range other.Apps {
		other.Apps[i].Demand = times(other.Apps[i].Demand)
	}
	return &other
}

func withUseless(inst *binpack.Instance) *binpack.Instance {
	other := *inst
	other.Machines = append(slices.Clone(inst.Machines), binpack.MachineLine{
		Name: "useless", Type: 0, Count: 1, Cost: 1, Capacity: make([]int64, len(inst.Dimensions)),
	})
	return &other
}

func renamed(inst *binpack.Instance) *binpack.Instance {
	other := *inst
	other.Machines, other.Apps, other.Groups = slices.Clone(inst.Machines), slices.Clone(inst.Apps), slices.Clone(inst.Groups)
	for i := range other.Machines {
		other.Machines[i].Name = fmt.Sprint("z", len(other.Machines)-i)
	}
	for i := range other.Apps {
		other.Apps[i].Name = fmt.Sprint("y", len(other.Apps)-i)
	}
	for i := range other.Groups {
		other.Groups[i].Name = fmt.Sprint("x", len(other.Groups)-i)
	}
	return &other
}

// plain hides that a scorer may be asked by class.
type plain struct{ binpack.Scorer }

type hidden struct{ binpack.Policy }

func (h hidden) Scorer(s *binpack.State) binpack.Scorer { return plain{h.Policy.Scorer(s)} }

// TestChooseByClass: with one machine of each class scored and with all of
// them, the choice is the same.
func TestChooseByClass(t *testing.T) {
	byClass := 0
	everyPolicy(t, func(t *testing.T, pol binpack.Policy) {
		if _, ok := pol.Scorer(binpack.NewState(randomInstance(seeded(0), false))).(binpack.ClassScorer); !ok {
			return
		}
		byClass++
		for seed := range uint64(150) {
			inst := randomInstance(seeded(seed), false)
			for i := range inst.Machines { // enough machines for classes of several
				if inst.Machines[i].Count != binpack.Unlimited {
					inst.Machines[i].Count *= 10
				}
			}
			require.Equal(t, run(inst, hidden{pol}, seed, 120, nothing), run(inst, pol, seed, 120, nothing))
		}
		inst, _ := largeLike(150, 3)
		require.Equal(t, run(inst, hidden{pol}, 1, 9000, nothing), run(inst, pol, 1, 9000, nothing))
	})
	require.GreaterOrEqual(t, byClass, 6)
}

// TestChooseByIndex: a search leads to the machine that a look at all of them finds, while items
// come and go.
func TestChooseByIndex(t *testing.T) {
	defer binpack.SearchIndexes()()
	weights := map[string]int64{"d0": 3, "example.com/last": 1}
	for _, pol := range []binpack.Policy{
		rule.BestFit{},
		rule.WorstFit{},
		rule.MostAllocated{Ties: rule.Ties{Seed: 3}},
		rule.LeastAllocated{Ties: rule.Ties{Seed: 3}},
		rule.MostAllocated{Ties: rule.Ties{ByPosition: true}},
		rule.LeastAllocated{Ties: rule.Ties{ByPosition: true}},
		rule.MostAllocated{Resources: weights},
		rule.LeastAllocated{Resources: weights},
	} {
		searched := 0
		for seed := range uint64(300) {
			inst := randomInstance(seeded(seed), false)
			if seed%2 == 0 { // counted where it is asked for
				inst.Dimensions[len(inst.Dimensions)-1].Name = "example.com/last"
			}
			for i := range inst.Machines {
				if inst.Machines[i].Count != binpack.Unlimited {
					inst.Machines[i].Count *= 10
				}
			}
			look := func(s *binpack.State, scorer binpack.Scorer, item binpack.Item) {
				found, known := scorer.(binpack.Shortlister).Contenders(item, nil)
				if known {
					searched++
					require.Subset(t, s.Feasible(item.App, nil), found)
				}
			}
			require.Equal(t, run(inst, hidden{pol}, seed, 200, nothing), run(inst, pol, seed, 200, look), "%+v, seed %d", pol, seed)
		}
		require.Greater(t, searched, 10000)
	}
}

// TestChooseAmongManyClasses: the same where classes are so many that they are
// searched late.
func TestChooseAmongManyClasses(t *testing.T) {
	for _, pol := range []binpack.Policy{rule.BestFit{}, rule.FirstFit{}, rule.WorstFit{}} {
		rng := rand.New(rand.NewPCG(1, 2))
		inst := &binpack.Instance{
			Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}, {Name: "memory", One: 1}},
			Types:      []string{"node"}, Fleet: binpack.Fixed,
			Machines: []binpack.MachineLine{{Name: "node", Count: 1200, Cost: 1, Capacity: []int64{100, 100}}},
		}
		for a := range int32(40) {
			inst.Groups = append(inst.Groups, binpack.Group{Name: fmt.Sprint(a), Limit: 1})
			inst.Apps = append(inst.Apps, binpack.App{
				Name: fmt.Sprint(a), Group: a, Expected: -1, Lifetime: -1,
				Demand: []int64{8 + rng.Int64N(40), 8 + rng.Int64N(40)},
			})
			if a > 2 {
				inst.Rules = append(inst.Rules, binpack.Rule{A: a, B: a - 3})
			}
		}
		late := 0
		look := func(s *binpack.State, _ binpack.Scorer, _ binpack.Item) {
			if s.SearchesClassesLate() {
				late++
			}
		}
		require.Equal(t, run(inst, hidden{pol}, 1, 6000, nothing), run(inst, pol, 1, 6000, look))
		require.Greater(t, late, 500)
	}
}

// TestFeasibleManyDimensions: of many dimensions, too, the machines that take an
// item are those that Fits says, while items come and go and after a Reset.
func TestFeasibleManyDimensions(t *testing.T) {
	for _, dims := range []int{3, 47, 48, 70} {
		rng := rand.New(rand.NewPCG(uint64(dims), 4))
		inst := &binpack.Instance{Types: []string{"node"}, Fleet: binpack.Fixed}
		capacity := make([]int64, dims)
		for d := range capacity {
			inst.Dimensions = append(inst.Dimensions, binpack.Dimension{Name: fmt.Sprint("d", d), One: 1})
			capacity[d] = 60 + rng.Int64N(40)
		}
		inst.Machines = []binpack.MachineLine{{Name: "node", Count: 60, Cost: 1, Capacity: capacity}}
		for a := range int32(30) {
			demand := make([]int64, dims)
			for d := range demand {
				demand[d] = rng.Int64N(30)
			}
			inst.Groups = append(inst.Groups, binpack.Group{Name: fmt.Sprint(a), Limit: 3})
			inst.Apps = append(inst.Apps, binpack.App{Name: fmt.Sprint(a), Group: a, Demand: demand, Expected: -1, Lifetime: -1})
		}
		s := binpack.NewState(inst)
		for range 2 {
			var apps, machines []int32
			kept, all := 0, 0
			for range 800 {
				app := int32(rng.IntN(30))
				got := s.Feasible(app, []int32{})
				want := []int32{}
				for m := range int32(s.Size()) {
					if s.Fits(app, m) {
						want = append(want, m)
					}
				}
				require.Equal(t, want, got)
				kept, all = kept+len(got), all+s.Size()
				if at := rng.IntN(len(apps) + 1); at < len(apps) && rng.IntN(3) == 0 {
					s.Remove(apps[at], machines[at], nil)
					apps, machines = slices.Delete(apps, at, at+1), slices.Delete(machines, at, at+1)
				}
				if len(got) > 0 {
					m := got[rng.IntN(len(got))]
					s.Place(binpack.Item{App: app}, m, nil)
					apps, machines = append(apps, app), append(machines, m)
				}
			}
			require.Less(t, kept, all*3/4)
			require.Greater(t, kept, all/40)
			s.Reset()
		}
	}
}
