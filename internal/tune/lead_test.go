package tune

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// lives are the items of each app that live at a time.
func lives(t *trace.Trace, at float64) []int32 {
	n := make([]int32, len(t.Instance.Apps))
	for _, e := range t.Events {
		if e.Time <= at {
			n[t.Requests[e.Request].App] += map[trace.Kind]int32{trace.Create: e.Count, trace.Delete: -e.Count}[e.Kind]
		}
	}
	return n
}

// TestLedByItself: a copy of the first day comes before it, another in each draw; the day itself keeps its events,
// and has its own pods after its first hour.
func TestLedByItself(t *testing.T) {
	tr, err := generate.Generate("kubernetes", 600701, map[string]string{"nodes": "20", "days": "2", "fleet": "one"})
	require.NoError(t, err)
	led := func(seed uint64) *trace.Trace {
		return ledByItself(tr, 0, day, rand.New(rand.NewPCG(seed, 1)))
	}
	got, want := led(1), tr.Window(0, day, nil)
	require.Equal(t, got, led(1))
	require.False(t, slices.Equal(got.Events, led(2).Events), "another draw")
	require.Equal(t, want.MeasureFrom, got.MeasureFrom)
	require.Less(t, got.Events[0].Time, -day+hour)
	for _, at := range []float64{trace.Settling, 4 * hour, 12 * hour, day} {
		require.Equal(t, lives(want, at), lives(got, at), "at %v", at)
	}
	require.NotEqual(t, lives(want, 0), lives(got, 0), "the copy leaves pods behind")

	times := func(w *trace.Trace) (list []float64) {
		for _, e := range w.Events {
			if e.Time > trace.Settling {
				list = append(list, e.Time)
			}
		}
		return list
	}
	require.Equal(t, times(want), times(got))
	created, left, names := 0, make([]int32, len(got.Requests)), map[string]bool{}
	for i, e := range got.Events {
		require.True(t, i == 0 || e.Time >= got.Events[i-1].Time)
		if e.Kind == trace.Create {
			require.EqualValues(t, created, e.Request, "requests are in the order of their arrival")
			created++
			left[e.Request] = e.Count
		} else {
			left[e.Request] -= e.Count
			require.GreaterOrEqual(t, left[e.Request], int32(0))
		}
	}
	for _, q := range got.Requests {
		require.False(t, names[q.Name], "%s twice", q.Name)
		names[q.Name] = true
	}
	for _, q := range want.Requests {
		require.True(t, names[q.Name], "recorded use is by name: %s", q.Name)
	}
	require.Equal(t, len(got.Requests), created)
}

// Requests of several items, of which some leave, are whole again when the day begins.
func TestLedByBatches(t *testing.T) {
	tr := lasting(24)
	for i := range tr.Requests {
		tr.Requests[i].Count = 3
	}
	var events []trace.Event
	for _, e := range tr.Events {
		e.Count = 3
		if e.Kind == trace.Delete && e.Time > 20*hour {
			e.Count = 2
		}
		events = append(events, e)
	}
	tr.Events = events
	got, want := ledByItself(tr, 0, day, rand.New(rand.NewPCG(1, 1))), tr.Window(0, day, nil)
	for _, at := range []float64{trace.Settling, 12 * hour, day} {
		require.Equal(t, lives(want, at), lives(got, at), "at %v", at)
	}
}
