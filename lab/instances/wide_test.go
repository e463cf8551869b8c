package instances

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWide: curves have limits, peaks near one hour and a swing that a mean does not show; vectors have none of
// these, and their dimensions differ.
func TestWide(t *testing.T) {
	curves := draw(t, "wide", 1, map[string]string{"n": "500", "d": "40"})
	require.Len(t, curves.Requests, 500)
	require.Len(t, curves.Instance.Dimensions, 40)
	limited, peaks := 0, 0.
	var together [20]float64 // the steps of cpu, each app with the same weight
	for a, app := range curves.Instance.Apps {
		limited += min(1, int(curves.Instance.Groups[a].Limit))
		least, most, sum := math.Inf(1), 0., 0.
		for _, need := range app.Demand[:20] {
			require.True(t, need >= 1 && need <= wideCapacity)
			least, most, sum = min(least, float64(need)), max(most, float64(need)), sum+float64(need)
		}
		peaks += most / (sum / 20)
		for d := range together {
			together[d] += float64(app.Demand[d]) / sum
		}
	}
	apps := len(curves.Instance.Apps)
	assert.InDelta(t, .4, float64(limited)/float64(apps), .15)
	assert.Greater(t, peaks/float64(apps), 1.6) // noise alone: 1.44 in 20 steps at a standard deviation of .2
	assert.Greater(t, slices.Max(together[:])/float64(apps), 1.2/20, "near one hour")

	vectors := draw(t, "wide", 1, map[string]string{"n": "300", "d": "5", "shape": "vectors"})
	require.Len(t, vectors.Instance.Apps, 300)
	same := 0
	for a, app := range vectors.Instance.Apps {
		require.Zero(t, vectors.Instance.Groups[a].Limit)
		if app.Demand[0] == app.Demand[4] {
			same++
		}
	}
	assert.Less(t, same, 30)
}
