package linear

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/packtest"
)

// TestForecastIsCorrected: with a forecast 30 % too high, or too low, the
// estimate of the volume is within 10 % of the truth after half the period, on
// all traces but those that are two standard deviations off (4.4 % of G, about
// 6 % of V, each; here 2 of 24 traces, 10 and 12 %).
func TestForecastIsCorrected(t *testing.T) {
	const traces = 8
	for _, factor := range []float64{1.3, 1, .7} {
		start, worst, close := 0.0, 0.0, 0
		for seed := range uint64(traces) {
			first, half, late := volumeErrors(t, 40+seed, factor)
			start += first / traces
			worst = max(worst, math.Abs(half))
			if math.Abs(half) < .1 {
				close++
			}
			require.Less(t, math.Abs(late), .1)
		}
		t.Logf("factor %.1f: %+.1f %% at the start, at most %.1f %% off from the middle on", factor, 100*start, 100*worst)
		require.InDelta(t, factor-1, start, .1, "the forecast is off to begin with")
		require.GreaterOrEqual(t, close, traces-1)
		require.Less(t, worst, .15)
	}
}

// volumeErrors plays a trace with its forecast times a factor and returns the
// relative error of the volume at the start, from the middle of the period on
// and from three quarters on, the largest each.
func volumeErrors(t *testing.T, seed uint64, factor float64) (first, half, late float64) {
	t.Helper()
	tr, err := generate.Generate("large", seed, map[string]string{"scale": ".5"})
	require.NoError(t, err)
	s := binpack.NewState(tr.Instance)
	s.Known = knownOf(tr, binpack.K1Clock)
	for a := range s.Known.Expected {
		s.Known.Expected[a] *= factor
	}
	truth := 0.0 // reference machines of cpu
	for _, q := range tr.Requests {
		truth += float64(q.Count) * float64(tr.Instance.Apps[q.App].Demand[0]) / 96
	}
	p := &Policy{know: binpack.K1Clock, params: map[string]float64{"z": 0}}
	d := fresh(s, p)
	first = d.final[0]/truth - 1
	begin, end := tr.Events[0].Time, tr.Events[len(tr.Events)-1].Time
	for _, e := range tr.Events {
		q := tr.Requests[e.Request]
		s.Known.Elapsed = (e.Time - begin) / (end - begin)
		s.Arrive(q.App, q.Count)
		d.arrive([]int32{q.App})
		d.plan()
		off := d.final[0]/truth - 1
		if s.Known.Elapsed >= .5 && math.Abs(off) > math.Abs(half) {
			half = off
		}
		if s.Known.Elapsed >= .75 && math.Abs(off) > math.Abs(late) {
			late = off
		}
	}
	sameDemand(t, fresh(s, p), d, "at the end")
	return first, half, late
}

// TestNothingGranted: a policy whose driver grants it nothing, though it asks
// for more, still scores, as with a forecast of nothing.
func TestNothingGranted(t *testing.T) {
	for _, know := range []binpack.Knowledge{binpack.K0Clock, binpack.K1, binpack.K1Clock, binpack.K2} {
		s := packtest.Small(binpack.K0)
		p := everyFeature(t, know, know == binpack.K0Clock)
		scorer := p.Scorer(s)
		for _, app := range []int32{0, 1, 1, 2} {
			s.Arrive(app, 2)
			all := s.Feasible(app, nil)
			out := make([]float64, len(all))
			scorer.Score(binpack.Item{App: app}, all, out)
			for _, score := range out {
				require.False(t, math.IsNaN(score) || math.IsInf(score, 0))
			}
			s.Place(binpack.Item{App: app}, all[0], nil)
		}
	}
}

// TestAbsurdForecast: sums stay finite and positive whatever is forecast.
func TestAbsurdForecast(t *testing.T) {
	for _, know := range []binpack.Knowledge{binpack.K1, binpack.K1Clock} {
		s := binpack.NewState(demandInstance(binpack.Open, []int64{10, 20}, []int64{1 << 50, 7}, []int64{1, 1}))
		s.Known.Expected = []float64{1 << 53, math.MaxFloat64, 1 << 53}
		p := everyFeature(t, know, true)
		p.params["beta"] = 2
		l := NewScorer(p, s)
		for i := range 20 {
			if know.Clock() {
				s.Known.Elapsed = float64(i) / 20
			}
			s.Arrive(int32(i%3), 5)
			out := []float64{0}
			l.Score(binpack.Item{App: 0}, s.Feasible(0, nil)[:1], out)
			require.False(t, math.IsNaN(out[0]) || math.IsInf(out[0], 0))
			for a, r := range l.d.remaining {
				require.Positive(t, r, "app %d", a)
			}
			require.Positive(t, l.d.sumRC)
			for d := range l.d.final {
				require.Positive(t, l.d.final[d])
				require.GreaterOrEqual(t, l.d.coming[d], int64(0))
			}
			sameDemand(t, fresh(s, p), l.d, "")
		}
	}
}
