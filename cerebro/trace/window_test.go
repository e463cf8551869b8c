package trace_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// churning is a random trace in which requests lose their items one by one.
func churning(rng *rand.Rand) *trace.Trace {
	t := &trace.Trace{Name: "churning", Source: map[string]any{"origin": "test"}, Instance: &binpack.Instance{Apps: make([]binpack.App, 3)}}
	left := []int32{}
	initial := rng.IntN(4)
	for i := range initial {
		n := 1 + rng.Int32N(3)
		t.Requests = append(t.Requests, trace.Request{Name: fmt.Sprint("placed-", i), App: rng.Int32N(3), Count: n})
		t.Placed = append(t.Placed, trace.Placed{Request: int32(i), Count: n})
		left = append(left, n)
	}
	t.Initial = initial
	now := 10.
	for i := range 60 {
		now += float64(rng.IntN(4)) // several at one time
		if r := rng.IntN(len(left) + 1); r < len(left) && left[r] > 0 {
			n := 1 + rng.Int32N(left[r])
			left[r] -= n
			t.Events = append(t.Events, trace.Event{Time: now, Kind: trace.Delete, Request: int32(r), Count: n})
			continue
		}
		n := 1 + rng.Int32N(5)
		t.Events = append(t.Events, trace.Event{Time: now, Kind: trace.Create, Request: int32(len(t.Requests)), Count: n})
		t.Requests = append(t.Requests, trace.Request{Name: fmt.Sprint("r-", i), App: rng.Int32N(3), Count: n})
		left = append(left, n)
	}
	return t
}

// living is how many items of each request live just before a time.
func living(t *trace.Trace, before float64) map[string]int32 {
	counts := map[string]int32{}
	for _, q := range t.Requests[:t.Initial] {
		counts[q.Name] = q.Count
	}
	for _, e := range t.Events {
		q := t.Requests[e.Request]
		switch {
		case e.Time >= before:
		case e.Kind == trace.Create:
			counts[q.Name] = q.Count
		default:
			counts[q.Name] -= e.Count
		}
	}
	for name, n := range counts {
		if n == 0 {
			delete(counts, name)
		}
	}
	return counts
}

// In a window lives at every time what lives in the whole; items that leave leave as there.
func TestWindowLivesAsTheWhole(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		whole := churning(rng)
		from := float64(rng.IntN(90))
		until := from + float64(1+rng.IntN(90))
		var shuffle *rand.Rand
		if seed%2 == 1 {
			shuffle = rng
		}
		w := whole.Window(from, until, shuffle)
		require.Zero(t, w.Initial)
		require.Empty(t, w.Placed)
		require.Equal(t, from+trace.Settling, w.MeasureFrom)
		require.Equal(t, map[string]any{"from": from, "until": until}, w.Source["window"])
		for at := from + 1; at <= until; at++ {
			require.Equal(t, living(whole, at), living(w, at), "seed %d, before %v", seed, at)
		}
		creates, last := int32(0), from
		left := map[int32]int32{}
		for _, e := range w.Events {
			require.True(t, last <= e.Time && e.Time < until)
			last = e.Time
			if e.Kind == trace.Create {
				require.Equal(t, creates, e.Request, "requests are in the order of their creates")
				require.Equal(t, w.Requests[e.Request].Count, e.Count)
				left[e.Request] = e.Count
				creates++
				continue
			}
			left[e.Request] -= e.Count
			require.GreaterOrEqual(t, left[e.Request], int32(0), "no more leave than are there")
		}
		require.Len(t, w.Requests, int(creates))
	}
}

// A request of which some items have left goes on with the lowest numbers.
func TestWindowKeepsTheOrder(t *testing.T) {
	whole := &trace.Trace{
		Requests: []trace.Request{{"a", 0, 3}, {"b", 0, 2}, {"c", 0, 1}},
		Events: []trace.Event{
			{0, trace.Create, 0, 3},
			{1, trace.Create, 1, 2},
			{2, trace.Delete, 0, 1},
			{5, trace.Create, 2, 1},
			{6, trace.Delete, 0, 2},
			{9, trace.Delete, 1, 2},
		},
		Instance: &binpack.Instance{Apps: make([]binpack.App, 1)},
	}
	w := whole.Window(5, 9, nil)
	require.Equal(t, []trace.Request{{"a", 0, 2}, {"b", 0, 2}, {"c", 0, 1}}, w.Requests)
	require.Equal(t, []trace.Event{{5, trace.Create, 0, 2}, {5, trace.Create, 1, 2}, {5, trace.Create, 2, 1}, {6, trace.Delete, 0, 2}}, w.Events)
}
