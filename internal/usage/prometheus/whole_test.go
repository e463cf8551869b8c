package prometheus

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/usage"
	"github.com/sigma-scheduler/sigma/internal/usage/prometheus/prometheustest"
)

// but is a use with gaps from some steps of day 19,999 to before others.
func but(of func(int64) float64, gaps ...[2]int64) func(int64) float64 {
	return func(i int64) float64 {
		for _, g := range gaps {
			if n := i - 19999*int64(Steps); n >= g[0] && n < g[1] {
				return prometheustest.None
			}
		}
		return of(i)
	}
}

// A pod's step in which a container lacks its sample is no low use of the pod.
func TestAStepWithoutOneContainerDoesNotCount(t *testing.T) {
	gaps := [][2]int64{{-288, 0}, {10, 200}, {280, 288}} // a whole day, a part of one, and the end
	main := prometheustest.Of("shop", "web-1", "app", but(prometheustest.Always(1), gaps...), but(prometheustest.Always(1e9), gaps...))
	log := prometheustest.Of("shop", "web-1", "log", prometheustest.Always(.1), func(i int64) float64 {
		if i == 19999*int64(Steps)+50 {
			return 8e9 // at a time when the other is not measured
		}
		return 1e8
	})
	rec := read(t, t.TempDir(), noon, 4, startFake(t, main, log).URL)
	rec.Runs = func(p Pod) []string {
		assert.Equal(t, Pod{"shop", "web-1"}, p)
		return []string{"app", "log"}
	}
	h := histories(t, rec)
	web := h.Pods["shop/web"]
	assert.InEpsilon(t, 1.1*(4*288-288-190-8), h.Used["shop/web"], .001, "no step is of the log alone")
	assert.InEpsilon(t, 1.1, web.Busiest(1, h.At), .011)
	cpu, memory := web.Days(h.At)
	assert.Equal(t, []int{3, 3}, []int{cpu, memory}, "the day without the main container is none of memory either")
	peak, _ := web.MemoryPeak(h.At)
	assert.InEpsilon(t, 8e9, peak, .001, "the pod used as much at least")
	assert.InEpsilon(t, (288+190+8)/(4*288.), h.Partial, 1e-6)
	assert.InEpsilon(t, .1, h.Containers[ContainerOf{"shop/web", "log"}].Busiest(1, h.At), .011)

	j, err := rec.Judge(19999, map[string][]Pod{"shop/web": {{"shop", "web-1"}}}, byPrefix)
	require.NoError(t, err)
	for i, v := range j.CPU[Pod{"shop", "web-1"}] {
		assert.Equal(t, i >= 10 && i < 200 || i >= 280, v != v, i)
	}
	assert.InEpsilon(t, 198/288., j.Partial, 1e-6)
}

// Containers that end before others, or begin later, are no gaps: an init container, and one that was added for a while.
func TestContainersOfAPartOfThePodsLife(t *testing.T) {
	rec := read(t, t.TempDir(), noon, 3, startFake(t,
		prometheustest.Of("shop", "web-1", "init", between(-300, -298, 2), between(-300, -298, 5e9)),
		prometheustest.Of("shop", "web-1", "app", between(-298, 288, 1), between(-298, 288, 1e9)),
		prometheustest.Of("shop", "web-1", "debug", between(100, 110, .5), between(100, 110, 1e9)),
	).URL)
	for _, runs := range []func(Pod) []string{nil, func(Pod) []string { return []string{"app"} }} {
		rec.Runs = runs
		h := histories(t, rec)
		assert.Zero(t, h.Partial)
		assert.InEpsilon(t, 1, h.Pods["shop/web"].Busiest(.001, h.At), .011)
		assert.InEpsilon(t, 2, h.Pods["shop/web"].Busiest(1, h.At), .011)
		peak, _ := h.Pods["shop/web"].MemoryPeak(h.At)
		assert.InEpsilon(t, 5e9, peak, .001)
	}
}

// Values that no pod can use are left out and counted: they end no run, and are no peak.
func TestImpossibleValuesAreDropped(t *testing.T) {
	odd := map[int64]float64{0: 1 << 53, 1: math.Inf(1), 2: math.NaN(), 3: -1e-320, 4: 1e300, 5: -3, 6: math.Copysign(0, -1), 7: 17, 8: 1e-320}
	at := func(usual float64) func(int64) float64 {
		return func(i int64) float64 {
			if v, ok := odd[i-19999*int64(Steps)]; ok {
				return v
			}
			return usual
		}
	}
	rec := read(t, t.TempDir(), noon, 2, startFake(t, prometheustest.Of("shop", "web-1", "app", at(1), at(1e9))).URL)
	rec.Most = usage.Amounts{CPU: 8, Memory: 64 << 30}
	h := histories(t, rec)
	assert.InEpsilon(t, 1, h.Pods["shop/web"].Busiest(1, h.At), .011)
	peak, _ := h.Pods["shop/web"].MemoryPeak(h.At)
	assert.InEpsilon(t, 1e9, peak, .001)
	assert.Equal(t, 7+6, h.Dropped.Count, "17 bytes are a use, 17 of 8 cores are none")
	assert.Equal(t, Pod{"shop", "web-1"}, h.Dropped.First)
	j, err := rec.Judge(19999, map[string][]Pod{"shop/web": {{"shop", "web-1"}}}, byPrefix)
	require.NoError(t, err)
	assert.Equal(t, 7+6, j.Dropped.Count)
	for i, v := range j.CPU[Pod{"shop", "web-1"}] {
		assert.Equal(t, i < 8 && i != 6, v != v, i)
		if i == 6 {
			assert.False(t, math.Signbit(float64(v)), "a negative zero is a zero")
		}
	}
	rec.Most = usage.Amounts{}
	assert.InEpsilon(t, 17, histories(t, rec).Pods["shop/web"].Busiest(1, float64(rec.Until)*86400), .011, "without a bound")
}
