package ledger_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// A past has the arrivals that a state counts.
type past struct {
	seen, requests, squares []int64
	all, count, came        int64
	last                    int32
	placements, departures  uint64
}

func pastOf(s *binpack.State) past {
	return past{
		slices.Clone(s.Seen()), slices.Clone(s.Requests()), slices.Clone(s.SumSquares()),
		s.SeenTotal(), s.RequestCount(), s.Came(), s.LastArrival(), s.Placements(), s.Departures(),
	}
}

// inBatches is a user's trace of a cluster: requests of several items, pods that leave, and a fleet that is too small for some.
func inBatches(t *testing.T, fleet binpack.Fleet, machines int) *trace.Trace {
	t.Helper()
	from, err := generate.Generate("churn", 1, map[string]string{"scale": ".1", "days": "1"})
	require.NoError(t, err)
	inst := *from.Instance
	inst.Fleet, inst.Machines = fleet, slices.Clone(inst.Machines)
	inst.Machines[0].Count = machines
	inst.Dimensions = append(slices.Clone(inst.Dimensions), binpack.Dimension{Name: "pods", One: 1}) // as every cluster has it
	inst.Machines[0].Capacity = append(slices.Clone(inst.Machines[0].Capacity), 110)
	inst.Apps = slices.Clone(inst.Apps)
	for i := range inst.Apps {
		inst.Apps[i].Demand = append(slices.Clone(inst.Apps[i].Demand), 1)
	}
	from.Instance, from.Source = &inst, nil
	return from
}

// withPlaced adds items that run before the first event.
func withPlaced(t *trace.Trace) *trace.Trace {
	out := *t
	out.Requests = append([]trace.Request{{Name: "there", App: 1, Count: 2}}, t.Requests...)
	out.Initial = 1
	out.Placed = []trace.Placed{{Line: 0, Index: 0, Count: 1}, {Line: 0, Index: 1, Count: 1}}
	out.Events = slices.Clone(t.Events)
	for i := range out.Events {
		out.Events[i].Request++
	}
	return &out
}

type decided struct {
	time    float64
	app     int32
	machine int32
	kind    cerebro.DecisionKind
}

func decisionsOf(t *testing.T, of *trace.Trace, retry bool, each func(*cerebro.Replayer, cerebro.Decision)) ([]decided, cerebro.Run) {
	t.Helper()
	learned, err := policy.Shipped().Policy()
	require.NoError(t, err)
	var list []decided
	r := cerebro.NewReplayer(of)
	out, err := r.Run(learned, cerebro.Options{Retry: retry, Record: func(d cerebro.Decision) {
		list = append(list, decided{d.Time, of.Requests[d.Request].App, d.Machine, d.Kind})
		if each != nil {
			each(r, d)
		}
	}})
	require.NoError(t, err)
	return list, out
}

// TestOneByOne: a replay of a cluster's trace counts arrivals as the ledger of the scheduler does, whether the trace has requests of
// several items or one for each pod.
func TestOneByOne(t *testing.T) {
	for name, tc := range map[string]struct {
		fleet    binpack.Fleet
		machines int
		retry    bool
		left     int // items that fit nowhere
	}{
		"open":          {binpack.Open, 90, false, 0},
		"fixed":         {binpack.Fixed, 30, false, 20},
		"fixed, waits":  {binpack.Fixed, 30, true, 20},
		"fixed, roomy":  {binpack.Fixed, 200, false, 0},
		"open, limited": {binpack.Open, 30, true, 20},
	} {
		t.Run(name, func(t *testing.T) {
			batches := inBatches(t, tc.fleet, tc.machines)
			single := byPods(t, "churn", 90, map[string]string{"scale": ".1", "days": "1"})
			single.Instance = batches.Instance
			batches, single = withPlaced(batches), withPlaced(single)

			l := ledger.New()
			object := policy.Shipped()
			apply(t, l, told(single, object)...)
			for i, p := range single.Placed {
				apply(t, l, &ledger.Event{
					Kind: ledger.KindPlace, UID: string(rune('a' + i)), App: single.Instance.Apps[1].Name, Node: single.MachineName(p.Line, p.Index),
				})
			}
			require.Equal(t, int64(0), l.Columns().RequestCount(), "pods found on nodes have not arrived")
			unplaced := 0
			asPods, outPods := decisionsOf(t, single, tc.retry, func(r *cerebro.Replayer, d cerebro.Decision) {
				q := single.Requests[d.Request]
				app := single.Instance.Apps[q.App].Name
				switch {
				case d.Kind == cerebro.Unplaced:
					unplaced++
					require.Empty(t, l.Fits(l.AppIndex(app), nil))
				case d.Kind == cerebro.Remove && d.Machine >= 0:
					apply(t, l, &ledger.Event{Kind: ledger.KindRemove, UID: q.Name})
				case d.Kind == cerebro.Place:
					apply(t, l, &ledger.Event{Kind: ledger.KindArrive, UID: q.Name, App: app})
					ranked, err := l.Rank(ledger.Primary, l.AppIndex(app), l.Fits(l.AppIndex(app), nil), 1, nil)
					require.NoError(t, err)
					node := single.MachineName(r.State().Position(d.Machine))
					require.Equal(t, node, l.NodeName(ranked[0].Machine))
					apply(t, l, &ledger.Event{
						Kind: ledger.KindDecide, UID: q.Name, App: app, Node: node, Decision: &ledger.Decision{Cause: ledger.CausePolicy},
					})
				}
				if d.Kind != cerebro.Remove { // the record of a removal precedes it
					live := pastOf(l.Columns())
					require.Equal(t, live, pastOf(r.State()))
				}
			})
			require.GreaterOrEqual(t, unplaced, tc.left)

			asBatches, outBatches := decisionsOf(t, batches, tc.retry, nil)
			require.True(t, slices.Equal(asPods, asBatches), "the decisions differ")
			require.Equal(t, outPods.Choices, outBatches.Choices)
			require.Equal(t, outPods.MachineSeconds, outBatches.MachineSeconds)
			require.Equal(t, outPods.CostSeconds, outBatches.CostSeconds)
			require.Equal(t, outPods.Unplaced, outBatches.Unplaced)

			whole := *batches
			whole.Source = map[string]any{"requests": "whole"}
			var after past
			decisionsOf(t, &whole, tc.retry, func(r *cerebro.Replayer, _ cerebro.Decision) { after = pastOf(r.State()) })
			require.Equal(t, len(batches.Requests)-batches.Initial, int(after.count))
			require.Greater(t, after.all, after.count)
		})
	}
}
