package generate

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The stated levels: a mean of 15 to 45 % of the requests by app, p99 ÷ mean of 1.5 to 6,
// a tenth of the apps above their request at p99, memory at 40 to 80 %.
func TestUsageHasTheStatedLevels(t *testing.T) {
	apps, above, ratios := 0., 0., []float64{}
	for seed := range uint64(4) {
		for kind, mean := range map[string][2]float64{"1": {.12, .5}, "hot": {.5, .7}} {
			tr, err := Generate("kubernetes", seed+1, map[string]string{"usage": kind, "days": "7", "nodes": "20"})
			require.NoError(t, err)
			u, err := tr.Usage()
			require.NoError(t, err)
			byApp, memory := map[int32][]float64{}, 0.
			for i := range u.Series {
				s := &u.Series[i]
				request := float64(tr.Instance.Apps[s.App].Demand[s.Dimension]) / float64(tr.Instance.Dimensions[s.Dimension].One)
				for _, v := range s.Values {
					if s.Dimension == 0 {
						byApp[s.App] = append(byApp[s.App], float64(v)/request)
					} else {
						memory = max(memory, float64(v)/request)
					}
				}
			}
			assert.Less(t, memory, 1.)
			means := 0.
			for _, list := range byApp {
				slices.Sort(list)
				sum := 0.
				for _, v := range list {
					sum += v
				}
				p99 := list[int(.99*float64(len(list)-1))]
				means += sum / float64(len(list)) / float64(len(byApp))
				if len(list) > 7*288/2 && kind == "1" {
					apps++
					ratios = append(ratios, p99/(sum/float64(len(list))))
					if p99 > 1 {
						above++
					}
				}
			}
			assert.Greater(t, means, mean[0])
			assert.Less(t, means, mean[1])
		}
	}
	slices.Sort(ratios)
	assert.Greater(t, ratios[len(ratios)/20], 1.3)
	assert.Less(t, ratios[len(ratios)*19/20], 7.)
	assert.InDelta(t, .1, above/apps, .08, "%v of %v apps", above, apps)
}

// All samples of an app together keep the stated ranges, of any seed and length.
func TestUsageOfEachAppIsInTheRanges(t *testing.T) {
	for _, c := range []struct {
		seed       uint64
		days, kind string
	}{{5, "21", "1"}, {11, "4", "1"}, {14, "4", "1"}, {14, "14", "1"}, {5, "2", "1"}, {11, "4", "hot"}} {
		tr, err := Generate("kubernetes", c.seed, map[string]string{"usage": c.kind, "days": c.days})
		require.NoError(t, err)
		u, err := tr.Usage()
		require.NoError(t, err)
		pooled := make([][2][]float32, len(tr.Instance.Apps))
		for i := range u.Series {
			s := &u.Series[i]
			pooled[s.App][s.Dimension] = append(pooled[s.App][s.Dimension], s.Values...)
		}
		above, means, apps := 0., 0., 0.
		for a, p := range pooled {
			if len(p[0]) == 0 {
				continue
			}
			app := &tr.Instance.Apps[a]
			at := fmt.Sprintf("%v %s", c, app.Name)
			cpu, p99 := meanAndP99(p[0], float64(app.Demand[0])/1000)
			memory, _ := meanAndP99(p[1], float64(app.Demand[1]))
			mean := meanUse(c.kind == "hot")
			assert.True(t, cpu >= mean[0] && cpu <= mean[1], "%s: mean %.4f of the request of cpu", at, cpu)
			assert.True(t, p99/cpu >= 1.5 && p99/cpu <= 6, "%s: p99 ÷ mean %.3f", at, p99/cpu)
			assert.True(t, memory >= .4 && memory <= .8, "%s: mean %.4f of the request of memory", at, memory)
			if means, apps = means+cpu, apps+1; p99 > 1.0001 {
				above++
			}
		}
		t.Logf("%v: mean %.3f, %v of %v apps above", c, means/apps, above, apps)
		assert.InDelta(t, .1, above/apps, .08, "%v", c)
	}
}

func meanAndP99(list []float32, request float64) (mean, p99 float64) {
	slices.Sort(list)
	for _, v := range list {
		mean += float64(v) / request / float64(len(list))
	}
	return mean, float64(list[int(.99*float64(len(list)-1))]) / request
}

func TestUsageChangesNoPlacement(t *testing.T) {
	with, err := Generate("kubernetes", 3, map[string]string{"usage": "1", "days": "1", "nodes": "20"})
	require.NoError(t, err)
	without, err := Generate("kubernetes", 3, map[string]string{"days": "1", "nodes": "20"})
	require.NoError(t, err)
	none, err := without.Usage()
	require.NoError(t, err)
	assert.Nil(t, none)
	assert.Equal(t, without.Events, with.Events)
	assert.Equal(t, without.Instance, with.Instance)
	again, err := Generate("kubernetes", 3, map[string]string{"usage": "1", "days": "1", "nodes": "20"})
	require.NoError(t, err)
	a, err := with.Usage()
	require.NoError(t, err)
	b, err := again.Usage()
	require.NoError(t, err)
	require.Len(t, b.Series, len(a.Series))
	for i := range a.Series {
		require.Equal(t, a.Series[i], b.Series[i])
	}
	// Each pod has values for its life, and no other.
	for i, life := range lifetimes(with, day) {
		s := &a.Series[2*i]
		assert.LessOrEqual(t, s.Start, life.from)
		assert.Less(t, math.Abs(s.End()-life.until), 2*usageStep)
	}
}

// The noise of a pod never returns: its logarithm beside that of another pod of the app, which
// has the same course, is uncorrelated with that of any later day.
func TestNoiseNeverReturns(t *testing.T) {
	tr, err := Generate("kubernetes", 5, map[string]string{"usage": "1", "days": "16", "nodes": "10"})
	require.NoError(t, err)
	u, err := tr.Usage()
	require.NoError(t, err)
	byApp := map[int32][][]float32{}
	for i := range u.Series {
		if s := &u.Series[i]; s.Dimension == 0 && len(s.Values) == 16*288 && slices.Min(s.Values) > .02 {
			byApp[s.App] = append(byApp[s.App], s.Values)
		}
	}
	pairs := 0
	for _, list := range byApp {
		if len(list) < 2 {
			continue
		}
		pairs++
		noise := make([]float64, 16*288)
		sum := 0.
		for k := range noise {
			noise[k] = math.Log(float64(list[0][k]) / float64(list[1][k]))
			sum += noise[k] / float64(len(noise))
		}
		for _, lag := range []int{288, 7 * 288, 1 << 12, 14 * 288} {
			same, own := 0., 0.
			for k := range len(noise) - lag {
				same += (noise[k] - sum) * (noise[k+lag] - sum)
				own += (noise[k] - sum) * (noise[k] - sum)
			}
			assert.Less(t, math.Abs(same/own), .5, "lag %d", lag)
		}
	}
	assert.Positive(t, pairs)
}
