package prometheus

import (
	"testing"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/usage"
	"github.com/sigma-scheduler/sigma/internal/usage/prometheus/prometheustest"
)

// between is a use from one step of day 19,999 to before another.
func between(from, until int64, v float64) func(int64) float64 {
	return func(i int64) float64 {
		if i -= 19999 * int64(Steps); i >= from && i < until {
			return v
		}
		return -1
	}
}

// The pods that are there now judge, with the samples of those before them until they came.
func TestFormerPodsJudgeInThePlaceOfPresentOnes(t *testing.T) {
	f := startFake(t,
		prometheustest.Of("shop", "web-new", "app", between(100, 288, 1), between(100, 288, 1e9)),
		prometheustest.Of("shop", "web-old", "app", between(0, 103, 2), between(0, 103, 2e9)), // replaced: three steps together
		prometheustest.Of("shop", "web-stays", "app", between(0, 288, 3), between(0, 288, 3e9)),
		prometheustest.Of("shop", "web-peak", "app", between(150, 200, 4), between(150, 200, 4e9)), // the autoscaler's third replica
		prometheustest.Of("shop", "other-1", "app", between(0, 288, 5), between(0, 288, 5e9)),
	)
	rec := read(t, t.TempDir(), noon, 1, f.URL)
	newer, stays := Pod{"shop", "web-new"}, Pod{"shop", "web-stays"}
	j, err := rec.Judge(19999, map[string][]Pod{"shop/web": {newer, stays}}, byPrefix)
	require.NoError(t, err)
	assert.Len(t, j.CPU, 2)
	for i, want := range []float32{0: 2, 99: 2, 100: 1, 287: 1} {
		if want > 0 {
			assert.InEpsilon(t, want, j.CPU[newer][i], .001, i)
			assert.InEpsilon(t, 1e9*want, j.Memory[newer][i], .001, i)
		}
	}
	assert.InEpsilon(t, 3, j.CPU[stays][42], .001)
	assert.InEpsilon(t, 53./(188+103+288+50), j.Beyond, 1e-9, "the third replica and the overlap have no place")
}

// Replicas that share load are one history of a pod's use, whatever their number.
func TestReplicasShareLoad(t *testing.T) {
	f := startFake(t)
	for i := range 10 {
		until := int64(288)
		if i > 0 {
			until = 144 // ten pods of .4 in the morning, one of 2 later
		}
		f.Series = append(f.Series, prometheustest.Of("shop", "web-"+string(rune('a'+i)), "app", func(s int64) float64 {
			if in := s % 288; in >= until {
				return -1
			} else if in >= 144 {
				return 2
			}
			return .4
		}, prometheustest.Always(1e9)))
	}
	h := histories(t, read(t, t.TempDir(), noon, 15, f.URL))
	web := h.Pods["shop/web"]
	days, _ := web.Days(h.At)
	assert.Equal(t, 15, days)
	assert.InEpsilon(t, .4, web.Busiest(.9, h.At), .011)
	assert.InEpsilon(t, 2, web.Busiest(.99, h.At), .011)
}

// The histories of some containers are those of all, and the API may be given.
func TestContainerHistories(t *testing.T) {
	f := startFake(t,
		prometheustest.Of("shop", "other-1", "app", prometheustest.Always(3), prometheustest.Always(3e9)),
		prometheustest.Of("shop", "web-1", "app", prometheustest.Always(.5), prometheustest.Always(1e9)),
		prometheustest.Of("shop", "web-2", "app", prometheustest.Always(.7), prometheustest.Always(prometheustest.None)),
		prometheustest.Of("shop", "web-2", "log", prometheustest.Always(.1), prometheustest.Always(1e8)),
	)
	asked := ""
	rec, err := (&Reader{URLs: []string{"http://nowhere.invalid"}, Folder: t.TempDir(), API: func(url string) promv1.API {
		asked = url
		c, err := api.NewClient(api.Config{Address: f.URL})
		require.NoError(t, err)
		return promv1.NewAPI(c)
	}}).Read(t.Context(), noon, 15)
	require.NoError(t, err)
	require.Equal(t, "http://nowhere.invalid", asked)
	some, err := rec.ContainerHistories(t.Context(), rec.Until, func(_ *Day, pod Pod) string {
		if pod.Name == "other-1" {
			return ""
		}
		return "shop/web"
	})
	require.NoError(t, err)
	all := histories(t, rec)
	require.Len(t, some, 2)
	for _, name := range []string{"app", "log"} {
		require.Equal(t, all.Containers[ContainerOf{"shop/web", name}], some[ContainerOf{"shop/web", name}], name)
	}
}

// Slots are of whole pods, workload by workload, and have the use of each hour.
func TestSlotsOfWorkloads(t *testing.T) {
	f := startFake(t)
	for _, app := range []string{"web", "db", "queue"} {
		for _, container := range []string{"app", "sidecar"} {
			f.Series = append(f.Series, prometheustest.Of("shop", app+"-1", container, func(s int64) float64 {
				if s%288/12 == 9 {
					return 2
				}
				return .5
			}, prometheustest.Always(1e9)))
		}
	}
	rec := read(t, t.TempDir(), noon, 15, f.URL)
	at := float64(beginOf(rec.Until).Unix())
	found := map[string][usage.SlotCount]float64{}
	require.NoError(t, rec.Slots(t.Context(), rec.Until, byPrefix, func(workload string, h *usage.History, s *usage.Slots) {
		assert.InEpsilon(t, 4, h.Busiest(1, at), .011)
		assert.NotContains(t, found, workload)
		found[workload] = s.Quantiles(.99, at, 14)
	}))
	require.Len(t, found, 3)
	assert.InEpsilon(t, 4, found["shop/web"][9], .011)
	assert.InEpsilon(t, 4, found["shop/web"][24+9], .011)
	assert.InEpsilon(t, 1, found["shop/db"][10], .011)
}
