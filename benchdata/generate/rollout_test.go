package generate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// Roll-outs replace containers, request by request, and leave as many as before.
func TestDepartures(t *testing.T) {
	for _, kind := range []string{"large", "large2d", "large3d", "fixed"} {
		plain := generate(t, kind, 3, nil)
		require.NotContains(t, plain.Source["parameters"], "departures", kind)
		tr := generate(t, kind, 3, map[string]string{"departures": ".5"})
		assert.InDelta(t, .5, tr.Source["parameters"].(map[string]any)["departures"], 0)
		assert.Equal(t, plain.Instance, tr.Instance, "%s: the fleet and the forecast stay", kind)
		assert.Equal(t, items(plain), items(tr), kind)

		created := make([]float64, len(tr.Requests))
		left := make([]int32, len(tr.Requests))
		rolled := map[int32]bool{}
		gone, all := 0, 0
		for _, n := range items(plain) {
			all += int(n)
		}
		last := 0.
		for _, e := range tr.Events {
			require.LessOrEqual(t, last, e.Time)
			last = e.Time
			if e.Kind == trace.Create {
				created[e.Request], left[e.Request] = e.Time, e.Count
				continue
			}
			require.True(t, created[e.Request] < e.Time && e.Time > day/2)
			left[e.Request] -= e.Count
			require.GreaterOrEqual(t, left[e.Request], int32(0))
			rolled[tr.Requests[e.Request].App] = true
			gone++
		}
		assert.LessOrEqual(t, last, day, kind)
		share := float64(len(rolled)) / float64(len(tr.Instance.Apps))
		t.Logf("%s: %.2f of the apps, %.2f of the containers", kind, share, float64(gone)/float64(all))
		assert.InDelta(t, .5, share, .06, kind)
		assert.InDelta(t, .36, float64(gone)/float64(all), .12, "%s: .725 of a day has passed, on average", kind)
	}
}
