package trace

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
)

// churn is a trace of n requests with deletes, many of them at equal times.
func churn(n int, seed uint64) *Trace {
	rng := rand.New(rand.NewPCG(seed, 0))
	tr := &Trace{Instance: &binpack.Instance{Apps: []binpack.App{{Name: "a"}}}, Initial: 2}
	for i := range n {
		tr.Requests = append(tr.Requests, Request{Name: fmt.Sprint(i), Count: 1 + rng.Int32N(4)})
		at := float64(rng.IntN(n))
		if i < tr.Initial {
			tr.Events = append(tr.Events, Event{at, Delete, int32(i), 1})
			continue
		}
		tr.Events = append(tr.Events, Event{at, Create, int32(i), tr.Requests[i].Count})
		for left := tr.Requests[i].Count; left > 0 && rng.IntN(4) > 0; {
			count := 1 + rng.Int32N(left)
			left -= count
			at += float64(rng.IntN(5))
			tr.Events = append(tr.Events, Event{at, Delete, int32(i), count})
		}
	}
	slices.SortStableFunc(tr.Events, func(a, b Event) int {
		if a.Time < b.Time {
			return -1
		} else if a.Time > b.Time {
			return 1
		}
		return 0
	})
	return tr
}

// requireOrdered checks what every order keeps: times do not decrease, slots
// keep their times, each request comes once and loses what it lost, after it came.
func requireOrdered(t *testing.T, tr *Trace, events []Event) {
	t.Helper()
	require.Len(t, events, len(tr.Events))
	type tally struct{ created, deleted int32 }
	count := func(events []Event) (map[int32]tally, []float64) {
		tallies, times := map[int32]tally{}, []float64(nil)
		last := events[:0]
		for _, e := range events {
			if len(last) > 0 && e.Time < last[0].Time {
				t.Fatalf("%v after %v", e, last[0])
			}
			last = []Event{e}
			c := tallies[e.Request]
			if e.Kind == Create {
				c.created += e.Count
				times = append(times, e.Time)
			} else {
				require.True(t, c.created > 0 || int(e.Request) < tr.Initial, "%v before its create", e)
				c.deleted += e.Count
			}
			tallies[e.Request] = c
		}
		return tallies, times
	}
	want, wantTimes := count(tr.Events)
	got, gotTimes := count(events)
	require.Equal(t, want, got)
	require.Equal(t, wantTimes, gotTimes)
}

func TestOrderKeeps(t *testing.T) {
	for seed := range uint64(50) {
		tr := churn(3+int(seed)*4, seed)
		for i := range 4 {
			events := tr.Order(seed, i)
			requireOrdered(t, tr, events)
			require.Equal(t, events, tr.Order(seed, i))
			if i > 0 {
				require.Equal(t, slowOrder(tr, seed, i), events)
			}
		}
	}
}

// slowOrder follows the text of the format: it moves the deletes, then sorts by
// time, deletes first, then slots, with deletes without delay behind their create.
func slowOrder(tr *Trace, seed uint64, i int) []Event {
	var creates []Event
	for _, e := range tr.Events {
		if e.Kind == Create {
			creates = append(creates, e)
		}
	}
	shuffled := slices.Clone(creates)
	rand.New(rand.NewPCG(seed, uint64(i))).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	type keyed struct {
		Event
		own  bool // with its create
		slot int
	}
	var all []keyed
	for slot, e := range shuffled {
		came := e.Time
		e.Time = creates[slot].Time
		all = append(all, keyed{e, true, slot})
		for _, d := range tr.Events {
			if d.Kind == Delete && d.Request == e.Request {
				d.Time = d.Time - came + e.Time
				all = append(all, keyed{d, d.Time == e.Time, slot})
			}
		}
	}
	for _, d := range tr.Events {
		if d.Kind == Delete && int(d.Request) < tr.Initial {
			all = append(all, keyed{d, false, -1})
		}
	}
	slices.SortStableFunc(all, func(a, b keyed) int {
		less := func(a, b keyed) bool {
			switch {
			case a.Time != b.Time:
				return a.Time < b.Time
			case a.own != b.own:
				return b.own
			case a.slot != b.slot:
				return a.slot < b.slot
			case a.Kind != b.Kind:
				return a.Kind == Create
			}
			return false // as in the file
		}
		if less(a, b) {
			return -1
		} else if less(b, a) {
			return 1
		}
		return 0
	})
	var events []Event
	for _, k := range all {
		events = append(events, k.Event)
	}
	return events
}

func TestOrderOfFive(t *testing.T) {
	tr := &Trace{Instance: &binpack.Instance{}}
	for i := range int32(5) {
		tr.Requests = append(tr.Requests, Request{Count: 1})
		tr.Events = append(tr.Events, Event{float64(10 * i), Create, i, 1})
	}
	want := []int32{0, 1, 2, 3, 4}
	rand.New(rand.NewPCG(7, 3)).Shuffle(5, func(i, j int) { want[i], want[j] = want[j], want[i] })
	require.NotEqual(t, []int32{0, 1, 2, 3, 4}, want)
	for slot, e := range tr.Order(7, 3) {
		require.Equal(t, Event{float64(10 * slot), Create, want[slot], 1}, e)
	}
	require.Equal(t, tr.Events, tr.Order(7, 0))
}

func BenchmarkOrder(b *testing.B) {
	tr := churn(300_000, 1)
	b.ReportAllocs()
	for i := 1; b.Loop(); i++ {
		tr.Order(1, i)
	}
	b.ReportMetric(float64(len(tr.Events)*b.N)/b.Elapsed().Seconds(), "events/s")
}
