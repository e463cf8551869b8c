package generate

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// TestDay: a day built from a snapshot has its apps alone. A Deployment has at most the items of the
// snapshot, but for a batch of a roll-out; a job, which has none there, comes and goes.
func TestDay(t *testing.T) {
	long, err := Generate("kubernetes", 600501, map[string]string{"nodes": "20", "days": "1", "fleet": "fixed"})
	require.NoError(t, err)
	now := *long.Window(12*3600+1, 12*3600+2, nil)
	now.Initial, now.Events = len(now.Requests), nil // as a snapshot has them
	alive := make([]int, len(now.Instance.Apps))
	for _, q := range now.Requests {
		alive[q.App] += int(q.Count)
	}
	jobs := 0
	for _, n := range alive {
		if n == 0 {
			jobs++
		}
	}
	require.Positive(t, jobs)

	got := Days(&now, 3, 1)
	require.Same(t, now.Instance, got.Instance)
	require.True(t, slices.Equal(got.Events, Days(&now, 3, 1).Events))
	require.False(t, slices.Equal(got.Events, Days(&now, 4, 1).Events), "another draw")
	most, left, lives := make([]int, len(alive)), make([]int, len(alive)), make([]int, len(alive))
	for i, e := range got.Events {
		require.True(t, i == 0 || e.Time >= got.Events[i-1].Time)
		require.Less(t, e.Time, day)
		app := got.Requests[e.Request].App
		if e.Kind == trace.Delete {
			lives[app]--
			left[app]++
			continue
		}
		lives[app] += int(e.Count)
		most[app] = max(most[app], lives[app])
	}
	deployments := 0
	for app, n := range alive {
		require.Positive(t, most[app], "app %d", app)
		if n == 0 {
			continue
		}
		deployments++
		require.LessOrEqual(t, most[app], n+surge(n), "app %d", app)
		require.GreaterOrEqual(t, most[app], n/2, "app %d", app)
	}
	require.Greater(t, deployments, 10)
	require.Greater(t, slices.Max(left), 5, "items leave")

	// What is there at the end counts, after arrivals and departures.
	until := Days(long.Window(0, 12*3600+1, nil), 3, 1)
	require.True(t, slices.Equal(got.Events, until.Events) && slices.Equal(got.Requests, until.Requests))
}
