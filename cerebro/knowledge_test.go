package cerebro_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro"
)

// A probe notes what it is let known, when its scorer is made and at every item.
type probe struct {
	know binpack.Knowledge
	saw  *[]binpack.Known
	t    *testing.T
}

func (p probe) Knowledge() binpack.Knowledge { return p.know }

func (p probe) Scorer(s *binpack.State) binpack.Scorer {
	p.look(s)
	return scorer{scoring{score: func(s *binpack.State, _ binpack.Item, _ []int32, out []float64) {
		p.look(s)
		clear(out)
	}}, s}
}

func (p probe) look(s *binpack.State) {
	*p.saw = append(*p.saw, s.Known)
	for _, app := range s.Instance().Apps {
		require.Equal(p.t, []float64{-1, -1}, []float64{app.Expected, app.Lifetime}, "the instance is no way round")
	}
}

// TestKnowledge: each level sees what it is granted and nothing else.
func TestKnowledge(t *testing.T) {
	tr := tableTrace(t, "fleet: open\n", openMachines, tableEvents)
	expected, lifetime := []float64{4, -1, 1.5}, []float64{100, -1, -1}
	// r0 2 a and r3 1 a live from 20 to 30; r1 2 b; r2 and r4 c one after the
	// other, though r2 is never deleted.
	peak := []int64{3, 2, 2}
	clock := []float64{0, 0, 0, .2, .2, .4, 1} // the scorer, then a a at 0, b b at 10, a at 20, c at 50, of 0 … 50
	for _, tc := range []struct {
		know                 binpack.Knowledge
		clock, forecast, all bool
	}{
		{binpack.K0, false, false, false},
		{binpack.K0Clock, true, false, false},
		{binpack.K1, false, true, false},
		{binpack.K1Clock, true, true, false},
		{binpack.K2, false, false, true},
	} {
		t.Run(tc.know.String(), func(t *testing.T) {
			var saw []binpack.Known
			r := cerebro.NewReplayer(tr)
			for range 2 { // the second time as the first
				saw = saw[:0]
				replay(t, r, probe{tc.know, &saw, t}, cerebro.Options{})
				require.Len(t, saw, len(clock))
				for i, got := range saw {
					want := binpack.Known{Elapsed: -1}
					if tc.clock {
						want.Elapsed = clock[i]
					}
					if tc.forecast {
						want.Expected, want.Lifetime = expected, lifetime
					}
					if tc.all {
						want.Total = peak
					}
					require.Equal(t, want, got, "look %d", i)
				}
			}
		})
	}
	// Waiting items are tried at the clock of the delete, which may be past the
	// last create; with creates at one time alone the clock stands still.
	var saw []binpack.Known
	r := cerebro.NewReplayer(tableTrace(t, "fleet: fixed\n", fixedMachines, `
time,kind,request,app,count
10,create,r0,c,1
20,create,r1,c,1
30,delete,r0,,
`))
	replay(t, r, probe{binpack.K1Clock, &saw, t}, cerebro.Options{Retry: true})
	require.Equal(t, []float64{0, 0, 1}, elapsed(saw)) // r1 waits until 30
	saw = nil
	r = cerebro.NewReplayer(tableTrace(t, "fleet: open\n", openMachines, "time,kind,request,app,count\n5,create,r0,a,2\n5,create,r1,a,2\n"))
	replay(t, r, probe{binpack.K0Clock, &saw, t}, cerebro.Options{})
	require.Equal(t, []float64{0, 0, 0, 0, 0}, elapsed(saw))
}

// TestRequestsArrive: the items of a request arrive together where the trace is no cluster's.
func TestRequestsArrive(t *testing.T) {
	for source, want := range map[string]int64{ // of 7 items in 5 requests, of which one request finds no machine
		"":                                     6,
		"source: {origin: Kubernetes cluster}": 6,
		"source: {generator: sigma generate kubernetes}": 6,
		"source: {generator: a script}":                  6,
		"source: {generator: sigma generate large}":      5,
		"source: {origin: azure}":                        5,
		"source: {requests: whole}":                      5,
	} {
		r := cerebro.NewReplayer(tableTrace(t, "fleet: open\n"+source, openMachines, tableEvents))
		run, _ := replay(t, r, lowest, cerebro.Options{})
		require.Equal(t, 1, run.Unplaced)
		require.Equal(t, want, r.State().RequestCount(), source)
	}
}

func elapsed(saw []binpack.Known) []float64 {
	var list []float64
	for _, k := range saw {
		list = append(list, k.Elapsed)
	}
	return list
}

// TestPeaksOfAnOrder: K2 knows the peaks of the order that is replayed.
func TestPeaksOfAnOrder(t *testing.T) {
	// In file order the second a comes after the first has gone.
	r := cerebro.NewReplayer(tableTrace(t, "fleet: open\n", openMachines, `
time,kind,request,app,count
0,create,r0,a,1
10,create,r1,b,1
15,delete,r0,,
20,create,r2,a,1
30,create,r3,b,1
`))
	require.Equal(t, []int64{1, 2, 0}, r.Totals())
	seen := map[int64]bool{}
	for order := 1; order <= 20; order++ {
		var saw []binpack.Known
		alive, most := int64(0), int64(0)
		_, err := r.Run(probe{binpack.K2, &saw, t}, cerebro.Options{Order: order, Seed: 1, Record: func(d cerebro.Decision) {
			switch {
			case r.Trace().Requests[d.Request].App != 0:
			case d.Kind == cerebro.Place:
				alive++
			case d.Kind == cerebro.Remove:
				alive--
			}
			most = max(most, alive)
		}})
		require.NoError(t, err)
		require.Equal(t, []int64{most, 2, 0}, saw[0].Total)
		seen[most] = true
	}
	require.Len(t, seen, 2, "the orders differ")
}
