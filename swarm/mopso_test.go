package swarm

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// zdt are functions of Zitzler, Deb and Thiele (2000) on [0, 1]^8: a convex,
// a concave and a broken front.
var zdt = map[string]func(x []float64) []float64{
	"zdt1": func(x []float64) []float64 {
		g := spare(x)
		return []float64{x[0], g * (1 - math.Sqrt(x[0]/g))}
	},
	"zdt2": func(x []float64) []float64 {
		g := spare(x)
		return []float64{x[0], g * (1 - x[0]/g*x[0]/g)}
	},
	"zdt3": func(x []float64) []float64 {
		g := spare(x)
		return []float64{x[0], g * (1 - math.Sqrt(x[0]/g) - x[0]/g*math.Sin(10*math.Pi*x[0]))}
	},
}

func spare(x []float64) float64 {
	sum := 0.0
	for _, v := range x[1:] {
		sum += v
	}
	return 1 + 9*sum/float64(len(x)-1)
}

// front runs an optimiser, or random search as its control, for a budget.
func front(t testing.TB, f func([]float64) []float64, random bool, seed uint64, workers, budget int) *Archive {
	t.Helper()
	s := Search{Box: unitBox(8), Seed: seed}
	var opt Optimizer
	var err error
	if random {
		opt, err = NewRandomSearch(s)
	} else {
		opt, err = NewMOPSO(s, DefaultPSO(), 2)
	}
	require.NoError(t, err)
	a := NewArchive(2)
	_, err = Minimize(context.Background(), opt, Parallel(workers, func(_ context.Context, task Task) (float64, []float64, error) {
		v := f(task.X)
		return v[0] + v[1], v, nil
	}), Options{Budget: budget, Archive: a})
	require.NoError(t, err)
	return a
}

// unitBox is [0, 1]^n.
func unitBox(n int) Box {
	b := Box{Lo: make([]float64, n), Hi: make([]float64, n)}
	for d := range b.Hi {
		b.Hi[d] = 1
	}
	return b
}

func TestMOPSOFindsFronts(t *testing.T) {
	reference := []float64{1.1, 6}
	for name, f := range zdt {
		for seed := range uint64(5) {
			found := front(t, f, false, seed, 1, 1000).Hypervolume(reference)
			control := front(t, f, true, seed, 1, 1000).Hypervolume(reference)
			require.Greater(t, found, control, "%s, seed %d", name, seed)
		}
	}
}

func TestMOPSOSameForAnyWorkers(t *testing.T) {
	want := front(t, zdt["zdt3"], false, 3, 1, 300).Points()
	require.NotEmpty(t, want)
	require.Equal(t, want, front(t, zdt["zdt3"], false, 3, 7, 300).Points())
}

func TestHypervolume(t *testing.T) {
	a := NewArchive(2)
	require.Zero(t, a.Hypervolume([]float64{4, 4}))
	for _, p := range [][]float64{{1, 3}, {2, 1}, {5, 0}} { // the last one is beyond the reference
		_, err := a.Add(Point{Objectives: p})
		require.NoError(t, err)
	}
	require.Equal(t, 7.0, a.Hypervolume([]float64{4, 4})) // 3·1 + 2·3 − 2·1
	require.Zero(t, a.Hypervolume([]float64{1, 4}))
}

// Against counting: the share of the unit cube that is dominated.
func TestHypervolumeByCounting(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		a := NewArchive(3)
		const cells = 12
		for range 8 {
			p := []float64{float64(rng.IntN(cells)) / cells, float64(rng.IntN(cells)) / cells, float64(rng.IntN(cells)) / cells}
			_, err := a.Add(Point{Objectives: p})
			require.NoError(t, err)
		}
		count := 0
		for c := range cells * cells * cells {
			cell := []float64{float64(c%cells) / cells, float64(c/cells%cells) / cells, float64(c/cells/cells) / cells}
			for _, p := range a.Points() {
				if noWorse(p.Objectives, cell) {
					count++
					break
				}
			}
		}
		require.InDelta(t, float64(count)/(cells*cells*cells), a.Hypervolume([]float64{1, 1, 1}), 1e-12)
	}
}

// When the objective changes, nothing of the old front is left.
func TestMOPSORenews(t *testing.T) {
	m, err := NewMOPSO(Search{Box: unitBox(2), Seed: 1, Size: 6}, DefaultPSO(), 2)
	require.NoError(t, err)
	a := NewArchive(2)
	_, err = Minimize(context.Background(), m, Parallel(2, func(_ context.Context, task Task) (float64, []float64, error) {
		at := 0.0
		if task.Generation >= 3 {
			at = 5
		}
		return at + task.X[0], []float64{at + task.X[0], at + 1 - task.X[0] + task.X[1]}, nil
	}), Options{Budget: 60, Archive: a, Renew: func(generation int) bool { return generation == 3 }})
	require.NoError(t, err)
	for _, p := range append(a.Points(), m.archive.Points()...) {
		require.GreaterOrEqual(t, p.Objectives[0], 5.0)
	}
	_, value := m.Best()
	require.GreaterOrEqual(t, value, 5.0)
}
