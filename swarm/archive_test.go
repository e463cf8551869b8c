package swarm

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestArchive(t *testing.T) {
	a := NewArchive(2)
	for _, c := range []struct {
		objectives []float64
		kept       bool
		len        int
	}{
		{[]float64{3, 3}, true, 1},
		{[]float64{1, 5}, true, 2},
		{[]float64{5, 1}, true, 3},
		{[]float64{3, 3}, false, 3}, // equal: the first stays
		{[]float64{4, 3}, false, 3}, // dominated
		{[]float64{2, 2}, true, 3},  // drops (3, 3)
		{[]float64{math.NaN(), 0}, false, 3},
		{[]float64{0, math.Inf(-1)}, false, 3},
		{[]float64{0, 0}, true, 1}, // drops all
	} {
		kept, err := a.Add(Point{Objectives: c.objectives, Position: []float64{float64(c.len)}})
		require.NoError(t, err)
		assert.Equal(t, c.kept, kept, "%v", c.objectives)
		assert.Equal(t, c.len, a.Len(), "%v", c.objectives)
	}
	_, err := a.Add(Point{Objectives: []float64{1}})
	require.ErrorContains(t, err, "1 objectives for an archive of 2")
}

// Against the definition: a point is kept when no other dominates it. The
// order of arrival does not matter.
func TestArchiveAgainstDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		points := make([]Point, 40)
		for i := range points {
			points[i].Objectives = []float64{float64(rng.IntN(9)), float64(rng.IntN(9)), float64(rng.IntN(9))}
		}
		want := map[[3]float64]bool{}
		for _, p := range points {
			dominated := false
			for _, q := range points {
				dominated = dominated || noWorse(q.Objectives, p.Objectives) && !noWorse(p.Objectives, q.Objectives)
			}
			if !dominated {
				want[[3]float64(p.Objectives)] = true
			}
		}
		a := NewArchive(3)
		rng.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
		for _, p := range points {
			_, err := a.Add(p)
			require.NoError(t, err)
		}
		got := map[[3]float64]bool{}
		for _, p := range a.Points() {
			got[[3]float64(p.Objectives)] = true
		}
		require.Equal(t, want, got)
	}
}
