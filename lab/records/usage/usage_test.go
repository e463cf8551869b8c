package usage

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/sized"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	product "github.com/sigma-scheduler/sigma/internal/usage"
)

// Sizes by use need fewer nodes than requests on a small cluster, and hindsight is near them.
func TestSetOfAGeneratedCluster(t *testing.T) {
	tr, err := generate.Generate("kubernetes", 11, map[string]string{"usage": "1", "days": "17", "nodes": "20"})
	require.NoError(t, err)
	s, err := newSet(tr, 15*day, 17*day, product.LeastDays)
	require.NoError(t, err)
	base, err := s.byRequest()
	require.NoError(t, err)
	requests, err := s.replay(base, 2, nil)
	require.NoError(t, err)
	w, err := s.bySize()
	require.NoError(t, err)
	static, err := s.replay(w, 2, nil)
	require.NoError(t, err)
	sizes, err := s.sizes()
	require.NoError(t, err)
	nights, err := s.replay(base, 2, sizes)
	require.NoError(t, err)
	w, err = s.hindsight()
	require.NoError(t, err)
	ideal, err := s.replay(w, 1, nil)
	require.NoError(t, err)
	assert.Less(t, static.nodes, .9*requests.nodes)
	assert.InEpsilon(t, ideal.nodes, nights.nodes, .3)
	assert.LessOrEqual(t, nights.mostMoved, 1.)
	assert.Zero(t, static.memory)
	assert.Less(t, static.over, 5.)
	w, err = s.changed(func(_ int, v int64) int64 { return v / 4 })
	require.NoError(t, err)
	quarter, err := s.replay(w, 1, nil)
	require.NoError(t, err)
	assert.Greater(t, quarter.over, static.over, "a quarter of the requests is below use")
	w, err = s.quantile(.99, 1)
	require.NoError(t, err)
	exact, err := s.replay(w, 1, nil)
	require.NoError(t, err)
	assert.InEpsilon(t, static.nodes, exact.nodes, .3)
}

// The checker follows the moves of nights, too, and an item without a place is counted and named.
func TestReplaysAreCheckedAndWhole(t *testing.T) {
	tr, err := generate.Generate("kubernetes", 11, map[string]string{"usage": "1", "days": "3", "nodes": "20"})
	require.NoError(t, err)
	s, err := newSet(tr, 2*day, 3*day, 1)
	require.NoError(t, err)
	sizes, err := s.sizes()
	require.NoError(t, err)
	for _, of := range []*sized.Sizes{nil, sizes} {
		opt, err := s.options(of)
		require.NoError(t, err)
		assert.True(t, opt.Check)
		assert.Equal(t, of != nil, opt.Nightly != nil)
	}
	w, err := s.changed(func(_ int, v int64) int64 { return v })
	require.NoError(t, err)
	w.Instance.Apps[3].Demand[0] = 2 * largest(w.Instance)
	items := 0
	for _, e := range w.Events {
		if q := w.Requests[e.Request]; e.Kind == trace.Create && q.App == 3 {
			items += int(e.Count)
		}
	}
	f, err := s.replay(w, 2, nil)
	require.NoError(t, err)
	require.Positive(t, items)
	assert.Equal(t, map[string]int{w.Instance.Apps[3].Name: 2 * items}, f.unplaced)
	r := record{}
	r.noted("row", f)
	assert.Equal(t, 2, r.replays)
	assert.Equal(t, []string{fmt.Sprintf("%d of %s (row)", 2*items, w.Instance.Apps[3].Name)}, r.unplaced)
}

// The last month of the folder is judged, and the one before it fitted; rows, page and summary have their names.
func TestLastMonths(t *testing.T) {
	u := &trace.Usage{Series: []trace.Series{{Start: 1372636800, Step: 31 * day, Values: []float32{1, 2, 3}}}} // July, August, 1 September
	of := func(months ...string) (*record, error) {
		files := map[string]any{"gwa_t12_rnd_vms.csv": "", "planetlab_cpu_20110303.csv": ""}
		for _, m := range months {
			files["gwa_t12_rnd_cpu_"+m+".csv"], files["gwa_t12_rnd_memory_"+m+".csv"] = "", ""
		}
		r := &record{}
		return r, r.lastMonths(&trace.Trace{Source: map[string]any{"files": files}}, u)
	}
	r, err := of("2013-07", "2013-08")
	require.NoError(t, err)
	assert.Equal(t, "GWA-T-12, July → August, 104 GHz", r.work(104))
	assert.Contains(t, r.set(), "by +100 % from July to August 2013")
	assert.Contains(t, r.set(), "that of both months")
	r, err = of("2013-09", "2013-07", "2013-08")
	require.NoError(t, err)
	assert.Equal(t, "GWA-T-12, August → September, 42 GHz", r.work(42))
	assert.Contains(t, r.set(), "by +50 % from August to September 2013")
	assert.Contains(t, r.set(), "largest use before September, by request at that of all 3 months")
	_, err = of("2013-07", "2013-09")
	require.ErrorContains(t, err, "no cpu file has 2013-08, which is fitted: the last month, 2013-09, is judged")
	_, err = of()
	require.Error(t, err)
}

// Of 1, 2, 3: the standard deviation is 1, so 4.303 ÷ √3 on each side.
func TestHalfOfTheInterval(t *testing.T) { assert.InDelta(t, 2.4841, half([]float64{1, 2, 3}), 1e-4) }

// Node-time without samples has no share above capacity, neither NaN nor 0.
func TestFiguresNeedSamples(t *testing.T) {
	tr := &trace.Trace{Instance: &binpack.Instance{Dimensions: []binpack.Dimension{{Name: "cpu", One: 1000}}}}
	add := func(judged float64) (f figures, err error) {
		err = f.add(tr, cerebro.Run{Use: &cerebro.Use{Until: 100, NodeSeconds: 100, Dimensions: []cerebro.DimensionUse{{Judged: judged, Over: judged / 10}}}})
		return f, err
	}
	for _, few := range []float64{0, 74} {
		_, err := add(few)
		require.ErrorContains(t, err, fmt.Sprintf("samples of cpu judge %g of 100 node-seconds: want 75 %%", few))
	}
	f, err := add(80)
	require.NoError(t, err)
	assert.InDelta(t, 10, f.over, 1e-9)
}
