package linear

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
)

// fixedFleet is a fleet of two kinds of machines without apps. One lacks the last of an even number of dimensions.
func fixedFleet(dims int) *binpack.Instance {
	inst := &binpack.Instance{Fleet: binpack.Fixed, Types: []string{"small", "large"}}
	small, large := make([]int64, dims), make([]int64, dims)
	for d := range dims {
		inst.Dimensions = append(inst.Dimensions, binpack.Dimension{Name: fmt.Sprint("d", d), One: 1})
		small[d], large[d] = 32, 96-int64(d)
	}
	if dims%2 == 0 {
		small[dims-1] = 0
	}
	inst.Machines = []binpack.MachineLine{
		{Name: "small", Count: 130, Cost: 1, Capacity: small}, {Name: "large", Type: 1, Count: 130, Cost: 1, Capacity: large},
	}
	return inst
}

// randomApp is an app with a group of its own, some with a limit, some for one kind of machines.
func randomApp(rng *rand.Rand, inst *binpack.Instance) (binpack.App, binpack.Group) {
	n := len(inst.Apps)
	app := binpack.App{Name: fmt.Sprint("a", n), Group: int32(len(inst.Groups)), Expected: -1, Lifetime: -1}
	for range inst.Dimensions {
		app.Demand = append(app.Demand, 1+rng.Int64N(8))
	}
	if rng.IntN(2) == 0 {
		app.Demand[len(app.Demand)-1] = 0
	}
	if rng.IntN(8) == 0 {
		app.Types = []int32{rng.Int32N(2)}
	}
	return app, binpack.Group{Name: app.Name, Limit: []int32{0, 1, 1, 2}[rng.IntN(4)]}
}

// TestCloses: an index leads to the machine that the scores of all of them give, for random weights, with
// departures, placements by others, and apps and rules that come later.
func TestCloses(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	shortlisted, scored, pressed := 0, 0, false
	for round := range 24 {
		inst := fixedFleet(1 + round%6)
		for range []int{0, 1, 40, 200}[round%4] {
			app, group := randomApp(rng, inst)
			inst.Apps, inst.Groups = append(inst.Apps, app), append(inst.Groups, group)
		}
		p := everyFeature(t, binpack.K0, true)
		for f := range p.weights {
			p.weights[f] = float64(rng.IntN(3)) * rng.NormFloat64()
		}
		if p.weights[fPartners] = 0; round%2 == 0 {
			clear(p.weights[fAge:fPartners])
		}
		p.weights[fSlot] = -math.Abs(p.weights[fSlot])
		p.emptyLast = round%3 == 1
		s := binpack.NewState(inst)
		scorer, plain := NewScorer(p, s), onlyScores{NewScorer(p, s)}
		type placement struct{ app, machine int32 }
		var placed []placement
		for range 1500 {
			n := int32(len(inst.Apps))
			switch draw := rng.IntN(40); {
			case n == 0 || draw == 0 && n < 300:
				app, group := randomApp(rng, inst)
				a := s.AddApp(app, group, 0)
				if b := rng.Int32N(a + 1); b != a {
					s.AddRules([]binpack.Rule{{A: app.Group, B: b, Max: rng.Int32N(2)}})
				}
				continue
			case draw < 8 && len(placed) > 0:
				i := rng.IntN(len(placed))
				s.Remove(placed[i].app, placed[i].machine, nil)
				placed[i] = placed[len(placed)-1]
				placed = placed[:len(placed)-1]
				continue
			}
			item := binpack.Item{App: rng.Int32N(n)}
			s.Arrive(item.App, 1)
			want, failure := s.Choose(plain, item)
			got, err := s.Choose(scorer, item)
			require.Equal(t, failure, err)
			require.Equal(t, want, got, "round %d, %d placed", round, len(placed))
			if err != nil {
				continue
			}
			all := s.Feasible(item.App, nil)
			some, known := scorer.Contenders(item, nil)
			require.True(t, known)
			require.Subset(t, all, some)
			shortlisted, scored, pressed = shortlisted+len(some), scored+len(all), pressed || len(scorer.strong) > 0
			if rng.IntN(8) == 0 {
				got = all[rng.IntN(len(all))]
			}
			s.Place(item, got, nil)
			placed = append(placed, placement{item.App, got})
		}
	}
	require.True(t, pressed)
	t.Log(shortlisted, scored)
	require.Less(t, float64(shortlisted), .2*float64(scored), "the index saves nothing")
}
