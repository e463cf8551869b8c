package binpack_test

import (
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
)

// checked is a fleet of two nodes of 10 cpu with 2 devices and a third of
// another type; app 1 asks for half a device, app 2 for two, app 3 only for cpu
// and stands on type a only.
func checked() *binpack.Instance {
	return &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}, {Name: "gpu", Unit: "m", One: 1000, Device: true}},
		Types:      []string{"a", "b"},
		Machines: []binpack.MachineLine{
			{Name: "node", Count: 2, Capacity: []int64{10, 2000}},
			{Name: "other", Type: 1, Count: 1, Capacity: []int64{10, 0}},
		},
		Groups: []binpack.Group{{Name: "plain"}, {Name: "half", Limit: 2}, {Name: "two"}, {Name: "spread", SpreadMin: 2}},
		Apps: []binpack.App{
			{Name: "plain", Group: 0, Demand: []int64{4, 0}},
			{Name: "half", Group: 1, Demand: []int64{1, 500}},
			{Name: "two", Group: 2, Demand: []int64{1, 2000}},
			{Name: "spread", Group: 3, Demand: []int64{1, 0}, Types: []int32{0}},
		},
		Rules: []binpack.Rule{{A: 0, B: 1, Max: 1}},
	}
}

func gpus(indices ...int32) []binpack.Device {
	var list []binpack.Device
	for _, i := range indices {
		list = append(list, binpack.Device{Dimension: 1, Index: i})
	}
	return list
}

func TestCheckerFindsEachViolation(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(*binpack.Checker)
		app    int32
		spot   spot
		gpus   []binpack.Device
		want   []string // parts of the error; none = nothing is broken
	}{
		{name: "nothing", app: 1, gpus: gpus(1)},
		{name: "capacity", app: 0, before: standing(0, 0), want: []string{"cpu: 12 used of 10"}},
		{name: "device taken", app: 2, gpus: gpus(0, 1), before: standing(1), want: []string{"gpu: 2500 used of 2000", "device 0: 1000 needed, 500 of 1000 taken"}},
		{name: "share of a full device", app: 1, gpus: gpus(0), before: standing(1, 1), want: []string{"device 0: 500 needed, 1000 of 1000 taken", "3 of group half, limit 2"}},
		{name: "no such device", app: 1, gpus: gpus(2), want: []string{"there is no gpu device 2"}},
		{name: "machine without devices", app: 1, spot: spot{1, 0}, gpus: gpus(0), want: []string{"gpu: 500 used of 0", "there is no gpu device 0"}},
		{name: "device twice", app: 2, gpus: gpus(1, 1), want: []string{"device 1 is given twice"}},
		{name: "too few devices", app: 2, gpus: gpus(1), want: []string{"1 devices given, 2 needed"}},
		{name: "no device", app: 1, want: []string{"0 devices given, 1 needed"}},
		{name: "device not asked for", app: 0, gpus: gpus(0), want: []string{"1 devices given, 0 needed"}},
		{name: "device of another dimension", app: 0, gpus: []binpack.Device{{Dimension: 0}}, want: []string{"dimension 0 has no devices"}},
		{name: "type", app: 3, spot: spot{1, 0}, want: []string{"type b is not allowed"}},
		{name: "limit", app: 1, gpus: gpus(1), before: standing(1, 1), want: []string{"3 of group half, limit 2"}},
		{name: "rule, the limited side comes", app: 1, gpus: gpus(1), before: standing(0, 1), want: []string{"rule plain, half, 1: 2 there"}},
		{name: "rule, the other side comes", app: 0, before: standing(1, 1), want: []string{"rule plain, half, 1: 2 there"}},
		{name: "rule kept", app: 0, before: standing(1)},
		{name: "spread", app: 3, before: standing(3), want: []string{"group spread on 1 machines, spread 2"}},
		{name: "spread reached", app: 3, spot: spot{0, 1}, before: standing(3)},
		{name: "no such machine", app: 0, spot: spot{0, 2}, want: []string{"there is no machine 2 of node"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			checker := binpack.NewChecker(checked())
			if c.before != nil {
				c.before(checker)
			}
			items := checker.Items()
			err := checker.Place(c.app, c.spot.line, c.spot.index, c.gpus)
			if c.want == nil {
				require.NoError(t, err)
			}
			for _, part := range c.want {
				require.ErrorContains(t, err, part)
			}
			if c.name != "no such machine" { // booked all the same, and can be taken away
				require.Equal(t, items+1, checker.Items())
				require.NoError(t, checker.Remove(c.app, c.spot.line, c.spot.index, c.gpus))
			}
		})
	}
}

// standing puts items on machine 0 of node as found; half a device is device 0.
func standing(apps ...int32) func(*binpack.Checker) {
	return func(c *binpack.Checker) {
		for _, app := range apps {
			var devices []binpack.Device
			if app == 1 {
				devices = gpus(0)
			}
			if err := c.Initial(app, 0, 0, devices); err != nil {
				panic(err)
			}
		}
	}
}

func TestCheckerRemove(t *testing.T) {
	c := binpack.NewChecker(checked())
	require.NoError(t, c.Place(1, 0, 0, gpus(1)))
	require.ErrorContains(t, c.Remove(0, 0, 0, nil), "node-00000 holds no plain")
	require.ErrorContains(t, c.Remove(1, 0, 1, gpus(1)), "node-00001 holds no half")
	require.ErrorContains(t, c.Remove(1, 0, 0, gpus(0)), "does not hold gpu device 0")
	require.Error(t, c.Remove(1, 7, 0, nil))
	require.Equal(t, 1, c.Machines())
	require.NoError(t, c.Remove(1, 0, 0, gpus(1)))
	require.Equal(t, 0, c.Machines())
	require.Equal(t, 0, c.Items())
}

// BenchmarkChecker books as many items as the largest public trace has, with
// 200 dimensions: it must cost little at the end of a replay.
func BenchmarkChecker(b *testing.B) {
	const items, machines, dimensions = 68_000, 4_000, 200
	inst := &binpack.Instance{Types: []string{""}, Machines: []binpack.MachineLine{{Name: "node", Count: machines}}}
	demand := make([]int64, dimensions)
	for d := range dimensions {
		inst.Dimensions = append(inst.Dimensions, binpack.Dimension{One: 1})
		inst.Machines[0].Capacity = append(inst.Machines[0].Capacity, 100)
		demand[d] = int64(1 + d%5)
	}
	for a := range int32(9000) {
		inst.Groups = append(inst.Groups, binpack.Group{Limit: 1, SpreadMin: 2})
		inst.Apps = append(inst.Apps, binpack.App{Group: a, Demand: demand})
		inst.Rules = append(inst.Rules, binpack.Rule{A: a, B: (a + 4000) % 9000, Max: 1}, binpack.Rule{A: (a + 1) % 9000, B: a, Max: 1})
	}
	b.ReportAllocs()
	for b.Loop() {
		c := binpack.NewChecker(inst)
		for i := range int32(items) {
			if err := c.Place(i%9000, 0, (i+i/36_000)%machines, nil); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// TestCheckerFar: the memory for a machine does not grow with its index, and its items count.
func TestCheckerFar(t *testing.T) {
	inst := checked()
	inst.Machines[0].Count = binpack.Unlimited
	c := binpack.NewChecker(inst)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for index := range int32(3) {
		require.NoError(t, c.Place(0, 0, math.MaxInt32-index, nil))
		require.NoError(t, c.Place(0, 0, math.MaxInt32-index, nil))
	}
	for index := range int32(5000) { // the indices that a fleet has
		require.NoError(t, c.Place(0, 0, index, nil))
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20))
	require.ErrorContains(t, c.Place(0, 0, math.MaxInt32, nil), "cpu: 12 used of 10")
	c.Resize(0, []int64{1, 0})
	require.NoError(t, c.Place(0, 0, math.MaxInt32, nil), "3 used, and one more")
	require.Equal(t, 5003, c.Machines())
	require.NoError(t, c.Remove(0, 0, math.MaxInt32-2, nil))
	require.NoError(t, c.Remove(0, 0, math.MaxInt32-2, nil))
	require.ErrorContains(t, c.Remove(0, 0, math.MaxInt32-2, nil), "holds no plain")
	require.Equal(t, 5002, c.Machines())
}
