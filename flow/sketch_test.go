package flow

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSketch(t *testing.T) {
	var s Sketch
	for _, bad := range []float64{0, -1, .5, 2e15, math.NaN(), math.Inf(1)} {
		require.Error(t, s.Add(bad))
	}
	require.Zero(t, s.Flows())
	rng := rand.New(rand.NewPCG(1, 2))
	var seen []float64
	for range 2000 {
		size := math.Exp(rng.Float64() * math.Log(1e15))
		seen = append(seen, size)
		require.NoError(t, s.Add(size))
	}
	require.NoError(t, s.Add(1))
	require.NoError(t, s.Add(1e15))
	seen = append(seen, 1, 1e15)
	require.NoError(t, s.Validate())
	require.EqualValues(t, 2002, s.Flows())

	// All of them drawn are those that were seen, each within a bin.
	drawn := s.Draw(1e6, rng)
	require.Len(t, drawn, 2002)
	require.False(t, slices.IsSorted(drawn))
	slices.Sort(drawn)
	slices.Sort(seen)
	for i := range seen {
		require.InEpsilon(t, seen[i], drawn[i], .0906)
	}
	part := s.Draw(250, rng)
	require.Len(t, part, 250)
	require.Empty(t, (&Sketch{}).Draw(10, rng))

	// A sum of sketches is the sketch of all, in any order.
	var low, high, sum Sketch
	for _, size := range seen {
		if size < 1e6 {
			require.NoError(t, low.Add(size))
		} else {
			require.NoError(t, high.Add(size))
		}
	}
	sum.Merge(high)
	sum.Merge(low)
	require.Equal(t, s, sum)
}

// The largest sketch takes 4 kB at most, as it is written.
func TestSketchIsSmall(t *testing.T) {
	s := Sketch{Counts: make([]int64, SketchBins)}
	for i := range s.Counts {
		s.Counts[i] = MostCount
	}
	require.NoError(t, s.Validate())
	text, err := json.Marshal(s.Counts)
	require.NoError(t, err)
	require.Less(t, len(text), 4000)
	s.Merge(s)
	require.EqualValues(t, MostCount, s.Counts[0])
}

func TestBadSketches(t *testing.T) {
	for want, s := range map[string]Sketch{
		"sketch: bins -1 to -1":                  {First: -1, Counts: []int64{1}},
		"sketch: bins 399 to 400, want 0 to 399": {First: 399, Counts: []int64{1, 1}},
		"sketch: -1 flows in bin 1":              {Counts: []int64{0, -1}},
		"sketch: 10000000 flows in bin 0":        {Counts: []int64{MostCount + 1}},
	} {
		require.ErrorContains(t, s.Validate(), want)
	}
}
