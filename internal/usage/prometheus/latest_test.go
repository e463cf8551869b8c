package prometheus

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/usage"
	"github.com/sigma-scheduler/sigma/internal/usage/prometheus/prometheustest"
)

func TestReadLatest(t *testing.T) {
	first := noon.Unix()/300 - 2 // the step of the first window
	rises := func(step int64) float64 { return float64(step-first) + 1 }
	f := startFake(t,
		prometheustest.Of("shop", "web-1", "app", rises, prometheustest.Always(100)),
		prometheustest.Of("shop", "web-1", "log", prometheustest.Always(.5), prometheustest.Always(10)),
		prometheustest.Of("shop", "web-2", "app", prometheustest.Always(1), prometheustest.Always(prometheustest.None)), // no memory
		prometheustest.Of("shop", "web-3", "app", prometheustest.Always(-2), prometheustest.Always(1)),
		prometheustest.Of("shop", "web-4", "app", prometheustest.Always(math.NaN()), prometheustest.Always(1)),
		prometheustest.Of("shop", "web-5", "app", prometheustest.Always(1), prometheustest.Always(math.Inf(1))),
	)
	f.Clock = noon.Unix
	windows, err := ReadLatest(t.Context(), f.URL, noon)
	require.NoError(t, err)
	for i, w := range windows {
		require.Equal(t, Latest{{"shop", "web-1"}: {"app": {CPU: float64(i + 1), Memory: 100}, "log": {CPU: .5, Memory: 10}}}, w)
	}

	_, err = ReadLatest(t.Context(), f.URL, noon.Add(2*time.Minute))
	require.ErrorContains(t, err, "its clock differs by -2m0s")
	f.Warning = "a store did not answer"
	_, err = ReadLatest(t.Context(), f.URL, noon)
	require.ErrorContains(t, err, "a store did not answer")
	f.Warning = ""
	f.Series[0].Labels = map[string]string{"cluster": "b"}
	_, err = ReadLatest(t.Context(), f.URL, noon)
	mixed := &MixedError{}
	require.ErrorAs(t, err, &mixed)
	require.Equal(t, "cluster", mixed.Label)
	f.Series = nil
	_, err = ReadLatest(t.Context(), f.URL, noon)
	require.ErrorIs(t, err, ErrEmpty)
	f.Close()
	_, err = ReadLatest(t.Context(), f.URL, noon)
	require.Error(t, err)
	_, err = ReadLatest(t.Context(), "prometheus:9090", noon)
	require.ErrorContains(t, err, "want http:// or https:// and a host")
}

func TestPlausible(t *testing.T) {
	node := usage.Amounts{CPU: 4, Memory: 100}
	require.True(t, Plausible(usage.Amounts{CPU: 5, Memory: 125}, node)) // rate extrapolates
	require.False(t, Plausible(usage.Amounts{CPU: 5.1}, node))
	require.False(t, Plausible(usage.Amounts{Memory: 126}, node))
}
