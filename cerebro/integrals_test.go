package cerebro_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// A slowRun keeps lists of items and computes everything again at each event.
type slowRun struct {
	tr             *trace.Trace
	on             map[[2]int32][]int32 // machine → apps of its items
	machines, cost float64              // integrals
	alloc          []float64
	span, last     float64
	peak           int
}

// rates are the number of machines in use, their cost, and the allocation rate.
func (s *slowRun) rates() (machines, cost float64, rate []float64) {
	inst := s.tr.Instance
	rate = make([]float64, len(inst.Dimensions))
	for d := range rate {
		used, capacity := 0.0, 0.0
		for at, apps := range s.on {
			for _, a := range apps {
				used += float64(inst.Apps[a].Demand[d])
			}
			if len(apps) > 0 && inst.Fleet == binpack.Open {
				capacity += float64(inst.Machines[at[0]].Capacity[d])
			}
		}
		if inst.Fleet == binpack.Fixed {
			for _, ml := range inst.Machines {
				capacity += float64(ml.Count) * float64(ml.Capacity[d])
			}
		}
		if capacity > 0 {
			rate[d] = used / capacity
		}
	}
	for at, apps := range s.on {
		if len(apps) > 0 {
			machines++
			cost += inst.Machines[at[0]].Cost
		}
	}
	return machines, cost, rate
}

// until integrates up to a time, from measureFrom on.
func (s *slowRun) until(now float64) {
	from := s.last
	if s.tr.MeasureFrom > from {
		from = s.tr.MeasureFrom
	}
	if dt := now - from; dt > 0 {
		machines, cost, rate := s.rates()
		s.machines += machines * dt
		s.cost += cost * dt
		for d := range rate {
			s.alloc[d] += rate[d] * dt
		}
		s.span += dt
	}
	s.last = now
}

// TestIntegrals compares with the slow computation from the decisions.
func TestIntegrals(t *testing.T) {
	for seed := range uint64(30) {
		tr := randomTrace(rand.New(rand.NewPCG(seed, 3)), false)
		r := cerebro.NewReplayer(tr)
		for order := range 2 {
			slow := &slowRun{tr: tr, on: map[[2]int32][]int32{}, alloc: make([]float64, len(tr.Instance.Dimensions))}
			events := tr.Order(6, order)
			slow.last = events[0].Time
			got, err := r.Run(lowest, cerebro.Options{Order: order, Seed: 6, Retry: seed%2 == 0, Record: func(d cerebro.Decision) {
				slow.until(d.Time)
				if d.Machine < 0 {
					return
				}
				line, index := r.State().Position(d.Machine)
				at, app := [2]int32{line, index}, tr.Requests[d.Request].App
				if d.Kind == cerebro.Place {
					slow.on[at] = append(slow.on[at], app)
				} else {
					i := slices.Index(slow.on[at], app)
					slow.on[at] = slices.Delete(slow.on[at], i, i+1)
				}
				n, _, _ := slow.rates()
				slow.peak = max(slow.peak, int(n))
			}})
			require.NoError(t, err)
			slow.until(events[len(events)-1].Time)
			require.Positive(t, slow.span)
			machines, cost, rate := slow.rates()
			require.Equal(t, []int{int(machines), slow.peak}, []int{got.Machines, got.PeakMachines})
			require.InDelta(t, cost, got.Cost, 1e-9)
			require.InEpsilon(t, slow.machines+1, got.MachineSeconds+1, 1e-12)
			require.InEpsilon(t, slow.cost+1, got.CostSeconds+1, 1e-12)
			for d := range rate {
				require.InDelta(t, rate[d], got.AllocationRate[d], 1e-12)
				require.InDelta(t, slow.alloc[d]/slow.span, got.MeanAllocationRate[d], 1e-12)
			}
		}
	}
}

// TestWideSums: 5,000 machines of 2⁵⁰ units hold 2⁶² and more together.
func TestWideSums(t *testing.T) {
	const n = 5000
	tr := &trace.Trace{
		MeasureFrom: math.NaN(),
		Instance: &binpack.Instance{
			Dimensions: []binpack.Dimension{{Name: "memory", One: 1}}, Types: []string{""}, Fleet: binpack.Fixed,
			Machines: []binpack.MachineLine{{Name: "m", Count: n, Cost: 1, Capacity: []int64{binpack.MaxValue}}},
			Groups:   []binpack.Group{{Name: "a"}},
			Apps:     []binpack.App{{Name: "a", Demand: []int64{binpack.MaxValue}, Expected: -1, Lifetime: -1}},
		},
		Requests: []trace.Request{{Name: "r", Count: n}, {Name: "s", Count: n}},
		Events: []trace.Event{
			{Time: 0, Request: 0, Count: n},
			{Time: 1, Kind: trace.Delete, Request: 0, Count: n / 2},
			{Time: 2, Request: 1, Count: n},
			{Time: 3, Kind: trace.Delete, Request: 0, Count: n / 2},
		},
	}
	run, err := cerebro.NewReplayer(tr).Run(lowest, cerebro.Options{Check: true})
	require.NoError(t, err)
	assert.Equal(t, []int{n / 2, n, n + n/2, n / 2}, []int{run.Machines, run.PeakMachines, run.Placed, run.Unplaced})
	// Full for a second, half full, full.
	assert.InDelta(t, 2.5/3, run.MeanAllocationRate[0], 1e-12)
	assert.InDelta(t, .5, run.AllocationRate[0], 1e-12)
	assert.InDelta(t, .25, run.Rejected[0], 1e-12)
	assert.InDelta(t, .75, run.FirstRejection, 1e-12)
}

// TestMarks: sums up to a time count from MeasureFrom, refusals too, also of what has its place later.
func TestMarks(t *testing.T) {
	tr := &trace.Trace{
		MeasureFrom: 2,
		Instance: &binpack.Instance{
			Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}}, Types: []string{""}, Fleet: binpack.Fixed,
			Machines: []binpack.MachineLine{{Name: "m", Count: 1, Cost: 1, Capacity: []int64{2}}},
			Groups:   []binpack.Group{{Name: "a"}},
			Apps:     []binpack.App{{Name: "a", Demand: []int64{1}, Expected: -1, Lifetime: -1}},
		},
		Requests: []trace.Request{{Name: "r", Count: 2}, {Name: "s", Count: 1}, {Name: "t", Count: 3}},
		Events: []trace.Event{
			{Time: 0, Request: 0, Count: 2},
			{Time: 1, Request: 1, Count: 1}, // refused before
			{Time: 5, Kind: trace.Delete, Request: 0, Count: 1},
			{Time: 6, Request: 2, Count: 3},
			{Time: 8, Kind: trace.Delete, Request: 0, Count: 1},
		},
	}
	run, err := cerebro.NewReplayer(tr).Run(lowest, cerebro.Options{Retry: true, Marks: []float64{4, 7, 9}})
	require.NoError(t, err)
	require.Equal(t, []cerebro.Mark{{CostSeconds: 2, WaitingSeconds: 2}, {CostSeconds: 5, WaitingSeconds: 6, Refused: 3}, {CostSeconds: 6, WaitingSeconds: 9, Refused: 3}}, run.Marks)
}
