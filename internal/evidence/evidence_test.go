package evidence

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// hourly is a trace of some days with some pods an hour that live for six; from a time on, their
// number or their life is another.
func hourly(days int, change float64, pods int, life float64) *trace.Trace {
	t := &trace.Trace{Name: "hourly", MeasureFrom: math.NaN(), Instance: &binpack.Instance{
		Fleet: binpack.Open, Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}}, Types: []string{"m"},
		Machines: []binpack.MachineLine{{Name: "m", Capacity: []int64{4}, Count: binpack.Unlimited, Cost: 2}},
		Groups:   []binpack.Group{{Name: "a"}}, Apps: []binpack.App{{Name: "a", Demand: []int64{1}, Expected: -1, Lifetime: -1}},
	}}
	for i := range days * 24 {
		// Some noise that is not that of the day before: a series that never varies has no deviation.
		at, count, lives := float64(i)*hour, 4+i%7, 6*hour
		if at >= change {
			count, lives = count*pods/4, life*hour
		}
		t.Requests = append(t.Requests, trace.Request{App: 0, Count: int32(count)})
		t.Events = append(t.Events, trace.Event{Time: at, Kind: trace.Create, Request: int32(i), Count: int32(count)})
		if leaves := at + lives + float64(i%5)*600; leaves < float64(days)*day {
			t.Events = append(t.Events, trace.Event{Time: leaves, Kind: trace.Delete, Request: int32(i), Count: int32(count)})
		}
	}
	inOrder(t)
	return t
}

func TestMonitor(t *testing.T) {
	const changes = 10 * day
	for _, tc := range []struct {
		name   string
		trace  *trace.Trace
		series string // "" = nothing changes
	}{
		{"nothing", hourly(20, changes, 4, 6), ""},
		{"a little", hourly(20, changes, 4, 6.3), ""},
		{"more pods", hourly(20, changes, 8, 6), "pods that come: "},
		{"longer lives", hourly(20, changes, 4, 9), "hours that pods live: "},
	} {
		m, err := NewMonitor(tc.trace)
		require.NoError(t, err)
		before, err := m.Until(changes)
		require.NoError(t, err)
		require.Nil(t, before, tc.name)
		found, err := m.Until(changes + 2*day)
		require.NoError(t, err)
		if tc.series == "" {
			require.Nil(t, found, tc.name)
			continue
		}
		require.NotNil(t, found, tc.name)
		require.Contains(t, found.Text, tc.series)
		require.InDelta(t, changes, found.Since, day)
		again, err := m.Until(20 * day)
		require.NoError(t, err)
		require.Nil(t, again, "%s: the new workload is found again", tc.name)
	}
}

// One pod of 1 on machines of 4 that cost 2 an hour: spreading costs four times as much as packing.
func TestTrial(t *testing.T) {
	tr := hourly(6, math.Inf(1), 4, 6)
	trial, err := NewTrial(tr, byName(t, "bestfit"), 2*day, 3*day, day, 2)
	require.NoError(t, err)
	packed, err := trial.Run(byName(t, "bestfit"))
	require.NoError(t, err)
	spread, err := trial.Run(byName(t, "leastallocated"))
	require.NoError(t, err)
	require.Len(t, packed.Cost, 2)
	require.Equal(t, 4, packed.PodsOfOneApp)
	require.Equal(t, 1, spread.PodsOfOneApp)
	require.Zero(t, packed.Unplaced)
	for i := range packed.Cost {
		require.Greater(t, spread.Cost[i], 3*packed.Cost[i])
	}
	// Until the takeover both are Best-Fit: a day that ends there costs the same.
	late, err := NewTrial(tr, byName(t, "bestfit"), 4*day, 4*day, day, 1)
	require.NoError(t, err)
	after, err := late.Run(byName(t, "leastallocated"))
	require.NoError(t, err)
	require.Less(t, after.Cost[0], spread.Cost[1], "what stood goes on standing")
	require.Greater(t, after.Cost[0], packed.Cost[1])

	_, err = NewTrial(tr, byName(t, "bestfit"), 4*day, 3*day, day, 1)
	require.ErrorContains(t, err, "a takeover before them")
	_, err = NewTrial(tr, byName(t, "bestfit"), 4*day, 5*day, day, 2)
	require.ErrorContains(t, err, "ends before the last day")
}

func TestPromise(t *testing.T) {
	own, other := Account{Cost: []float64{90, 80, 85}}, Account{Cost: []float64{100, 100, 100}}
	saving := Saving(own, other, .95, 1)
	require.InDelta(t, 15, saving.Mean, 1e-9)
	require.GreaterOrEqual(t, saving.Low, 10.)
	require.LessOrEqual(t, saving.High, 20.)
	week, month := Promise(own, other, 7, .9, 1), Promise(own, other, 28, .9, 1)
	require.InDelta(t, 15, week.Mean, 1e-9)
	// Wider than what the three days themselves say, and more so where fewer days are to come.
	require.Less(t, week.Low, saving.Low)
	require.Greater(t, week.High, saving.High)
	require.Less(t, Promise(own, other, 1, .9, 1).Low, week.Low)
	require.Greater(t, Promise(own, other, 1, .9, 1).High, week.High)
	require.NotEqual(t, week, month)
	one := Promise(Account{Cost: []float64{90}}, Account{Cost: []float64{100}}, 7, .9, 1)
	require.True(t, math.IsInf(one.Low, -1) && math.IsInf(one.High, 1), "a single day promises nothing")
}

// What stood is a policy like any other, and none is below the bound.
func TestTrajectory(t *testing.T) {
	tr := hourly(3, math.Inf(1), 4, 6)
	packed, err := Follow(tr, byName(t, "bestfit"))
	require.NoError(t, err)
	spread, err := Follow(tr, byName(t, "leastallocated"))
	require.NoError(t, err)
	require.Equal(t, packed.Pods, spread.Pods)
	require.Equal(t, spread.Pods, spread.Opened, "each pod came to an empty node")
	require.Greater(t, spread.Nodes, 3*packed.Nodes)
	require.InDelta(t, 2*float64(packed.Nodes), packed.Cost, 1e-9)
	require.LessOrEqual(t, Bound(tr), packed.Spent)
	require.Greater(t, 1.5*Bound(tr), packed.Spent)
	require.Zero(t, packed.Fallbacks)
	_, err = Recorded(tr)
	require.ErrorContains(t, err, "nothing says where items stood")
}
