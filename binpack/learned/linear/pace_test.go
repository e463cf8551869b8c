package linear

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
)

var withPace = map[string]float64{"z": 0, "q": 1, "pace": 1}

// paced plays a trace of large in a random order at K1 and calls see after each request, with
// the true share that has come and the true volume, in machines of cpu.
func paced(t *testing.T, seed uint64, set map[string]string, params map[string]float64, see func(d *demand, share, truth float64)) {
	t.Helper()
	tr, err := generate.Generate("large", seed, set)
	require.NoError(t, err)
	s := binpack.NewState(tr.Instance)
	s.Known = knownOf(tr, binpack.K1)
	p := &Policy{know: binpack.K1, params: params}
	d := fresh(s, p)
	rng := rand.New(rand.NewPCG(seed, 1))
	rng.Shuffle(len(tr.Requests), func(i, j int) { tr.Requests[i], tr.Requests[j] = tr.Requests[j], tr.Requests[i] })
	items, truth := int64(0), 0.0
	for _, q := range tr.Requests {
		items += int64(q.Count)
		truth += float64(q.Count) * float64(tr.Instance.Apps[q.App].Demand[0]) / 96
	}
	for _, q := range tr.Requests {
		s.Arrive(q.App, q.Count)
		d.arrive([]int32{q.App})
		d.plan()
		see(d, float64(d.items)/float64(items), truth)
	}
	sameDemand(t, fresh(s, p), d, "at the end")
}

// TestPaceCorrectsTheForecast: nothing but the order in which the apps have come tells that a
// forecast is off by 30 %, yet the target for the fleet stays below the volume, but for a few
// percent, and follows it in the end. Without pace it is a quarter too high.
func TestPaceCorrectsTheForecast(t *testing.T) {
	for _, set := range []map[string]string{nil, {"forecast": "1.3"}, {"forecast": ".7"}, {"noise": ".7"}} {
		t.Run(fmt.Sprint(set), func(t *testing.T) {
			const traces = 4
			mean := 0.0
			for seed := range uint64(traces) {
				highest, late := 0.0, 0.0
				paced(t, 60+seed, set, withPace, func(d *demand, share, truth float64) {
					if share > .2 { // no earlier is there an item for each machine
						highest = max(highest, d.target[0]/truth)
					}
					late = d.target[0] / truth
				})
				require.Less(t, highest, 1.12)
				require.Greater(t, late, .97)
				mean += highest / traces
			}
			require.Less(t, mean, 1.06)
		})
	}
	without := 0.0
	paced(t, 60, map[string]string{"forecast": "1.3"}, map[string]float64{"z": 0, "q": 1}, func(d *demand, _, truth float64) {
		without = d.target[0] / truth
	})
	require.Greater(t, without, 1.15)
}

// TestPaceKnowsItsError: from the middle on the share is off by less than 2.5 times the error
// that it states, on average over a trace by less than twice, and where the counts of the apps
// are noise the error is several times that of a good forecast.
func TestPaceKnowsItsError(t *testing.T) {
	stated := map[string]float64{}
	for _, factor := range []string{"1", "1.3", ".7"} {
		for seed := range uint64(4) {
			off, n := 0.0, 0.0
			paced(t, 60+seed, map[string]string{"forecast": factor}, withPace, func(d *demand, share, _ float64) {
				if share < .5 {
					return
				}
				got, relative := d.volume.pace()
				wrong := math.Abs(got-share) / (got * relative)
				require.Less(t, wrong, 2.5, "%.2f for %.2f", got, share)
				off, n = off+wrong, n+1
				stated[factor] = relative
			})
			require.Less(t, off/n, 2.)
		}
	}
	paced(t, 60, map[string]string{"noise": ".7"}, withPace, func(d *demand, _, _ float64) {
		_, stated["noise"] = d.volume.pace()
	})
	require.Greater(t, stated["noise"], 3*stated["1"])
}

// TestPaceByHand works the line out where there is one class, so that c² is known by its prior
// alone: two apps of one item each time, 4 forecast of both, 3 and 1 have come.
func TestPaceByHand(t *testing.T) {
	s := binpack.NewState(demandInstance(binpack.Open, []int64{3, 2}, []int64{3, 7}))
	s.Known.Expected = []float64{4, 4}
	for _, app := range []int32{0, 0, 0, 1} {
		s.Arrive(app, 1)
	}
	d := newDemand(s, binpack.K1, map[string]float64{"z": 0, "pace": 1})
	d.reload()
	// r = ½, b = 1, Σ(n − 2)² = 2, so y = 2 ÷ (½·8) and x = ½·32 ÷ 8.
	const r, x, y = .5, 2., .5
	left, c2, variance := 1-r, .06, 0.
	for range 4 {
		f := left + c2*x
		w := 2 / (f * (2*f + .5)) // b·A ÷ (r·Σ m) = ½
		p := 1 / (.5 * .5)
		det := w*(w*x*x+p) - w*x*w*x
		left = (w*y*(w*x*x+p) - w*x*(w*x*y+p*.06)) / det
		c2 = (w*x*y + p*.06 - left*w*x) / (w*x*x + p)
		variance = (w*x*x + p) / det
	}
	require.InDelta(t, y-.06*x, left, 1e-9, "the line goes through the point, with the slope of the prior")
	require.InDelta(t, .06, c2, 1e-9)
	own, prior := 1/(variance+.25*c2*c2), 1/(.25*.25*r*r)
	want := ((1-left)*own + r*prior) / (own + prior)
	got, relative := d.volume.pace()
	require.InDelta(t, want, got, 1e-9)
	require.InDelta(t, 1/math.Sqrt(own+prior)/want, relative, 1e-9)
}

// TestPaceAtTheEdges: nothing has come, apps without a forecast, and forecasts of nothing give
// a share and an error that are finite.
func TestPaceAtTheEdges(t *testing.T) {
	for _, expected := range [][]float64{{4, 4}, {-1, 4}, {0, 0}, {1e-300, math.MaxFloat64}, {1e-300, -1}, {1e-300, 1e-300}, {.0003, .0004}} {
		s := binpack.NewState(demandInstance(binpack.Open, []int64{3, 2}, []int64{3, 7}))
		s.Known.Expected = expected
		d := newDemand(s, binpack.K1, map[string]float64{"z": 0, "q": 1, "pace": 1})
		for range 5 {
			d.reload()
			share, relative := d.volume.pace()
			require.True(t, share >= 0 && share <= 1 && relative >= 0 && !math.IsInf(relative, 0), "%v: %v ± %v", expected, share, relative)
			d.plan()
			for _, v := range d.target {
				require.True(t, v >= 0 && !math.IsInf(v, 0), "%v: %v", expected, v)
			}
			s.Arrive(0, 3)
		}
	}
}
