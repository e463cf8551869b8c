package devices

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
)

// A scorer that follows a state that grows gives the scores of a new one, to the last bit,
// and takes the same GPUs.
func TestGrowingChangesNoScore(t *testing.T) {
	for _, know := range []binpack.Knowledge{binpack.K0, binpack.K1} {
		for _, fleet := range []binpack.Fleet{binpack.Fixed, binpack.Open} {
			for seed := range uint64(20) {
				t.Run(fmt.Sprint(know, fleet, seed), func(t *testing.T) {
					growsAlike(t, know, fleet, rand.New(rand.NewPCG(seed, 5)))
				})
			}
		}
	}
}

func growsAlike(t *testing.T, know binpack.Knowledge, fleet binpack.Fleet, rng *rand.Rand) {
	inst := deviceInstance(rng, fleet)
	apps, groups := inst.Apps, inst.Groups
	inst.Apps, inst.Groups = apps[:8:8], groups[:8:8]
	s := binpack.NewState(inst)
	if know == binpack.K1 {
		for range inst.Apps {
			s.Known.Expected = append(s.Known.Expected, 20*rng.Float64())
		}
	}
	pol := everyDeviceFeature(t, know, rng)
	grown := pol.Scorer(s)
	require.Implements(t, (*binpack.Grower)(nil), grown)
	for step := range 400 {
		if step%5 == 4 {
			app := apps[rng.IntN(len(apps))]
			app.Group = int32(rng.IntN(len(inst.Groups) + 1))
			if rng.IntN(3) == 0 {
				app.Demand = []int64{app.Demand[0] + 500, app.Demand[1], app.Demand[2]}
			}
			s.AddApp(app, groups[min(int(app.Group), len(groups)-1)], 0)
		}
		if step == 200 && know == binpack.K1 { // another forecast, of new apps too
			expected := make([]float64, len(inst.Apps))
			for a := range expected {
				expected[a] = 20*rng.Float64() - 2
			}
			s.Known.Expected = expected
		}
		item := binpack.Item{App: int32(rng.IntN(len(inst.Apps)))}
		s.Arrive(item.App, 1)
		machines := s.Feasible(item.App, nil)
		if len(machines) == 0 {
			continue
		}
		sameScores(t, s, grown, pol.Scorer(s), item, machines)
		m, err := s.Choose(grown, item)
		require.NoError(t, err)
		s.Place(item, m, grown.(binpack.DeviceChooser))
	}
}

// sameScores compares all answers of two scorers, and changes nothing.
func sameScores(t *testing.T, s *binpack.State, a, b binpack.Scorer, item binpack.Item, machines []int32) {
	t.Helper()
	left, right := make([]float64, len(machines)), make([]float64, len(machines))
	a.Score(item, machines, left)
	b.Score(item, machines, right)
	require.Equal(t, right, left)
	x, err := s.Choose(a, item)
	require.NoError(t, err)
	y, err := s.Choose(b, item)
	require.NoError(t, err)
	require.Equal(t, y, x)
	for _, m := range machines {
		takes := func(scorer binpack.Scorer) []int32 {
			return scorer.(binpack.DeviceChooser).ChooseDevices(item, m, 2, s.Devices(m, 2), nil)
		}
		require.Equal(t, takes(b), takes(a))
		require.Equal(t, b.(binpack.Explainer).Explain(item, m), a.(binpack.Explainer).Explain(item, m))
	}
}
