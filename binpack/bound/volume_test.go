package bound

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/packtest"
)

func TestVolume(t *testing.T) {
	tests := []struct {
		name  string
		lines []binpack.MachineLine
		item  []int64
		n     int64
		want  Bound
	}{
		// 1360/96 = 14.17
		{"one kind", []binpack.MachineLine{packtest.Line(-1, 1, 96)}, []int64{4}, 340, Bound{Machines: 15, Cost: 15}},
		{"nothing", []binpack.MachineLine{packtest.Line(-1, 1, 96)}, []int64{4}, 0, Bound{}},
		{"exactly full", []binpack.MachineLine{packtest.Line(2, 1, 96)}, []int64{96}, 2, Bound{Machines: 2, Cost: 2}},
		{"one too many", []binpack.MachineLine{packtest.Line(2, 1, 96)}, []int64{96}, 3, Bound{Machines: 2, Cost: 2, Short: true}},
		// 10 items of 10: two of 40 and one of 30. Cost: 30s at .1 each, 40s at .125: 90 by three 30s = 9, rest 10/40·5 = 1.25 → 11.
		{"largest first, cheapest first", []binpack.MachineLine{packtest.Line(3, 3, 30), packtest.Line(2, 5, 40)}, []int64{10}, 10, Bound{Machines: 3, Cost: 11}},
		// 90 → 4.5, rest 10/40·2.5 = .625
		{"fractional costs stay", []binpack.MachineLine{packtest.Line(3, 1.5, 30), packtest.Line(2, 2.5, 40)}, []int64{10}, 10, Bound{Machines: 3, Cost: 5.125}},
		{"unlimited small behind large", []binpack.MachineLine{packtest.Line(-1, 1, 10), packtest.Line(2, 9, 40)}, []int64{10}, 10, Bound{Machines: 4, Cost: 10}},
		// memory: 5·7 = 35 of 10 → 4
		{"second dimension", []binpack.MachineLine{packtest.Line(-1, 1, 10, 10)}, []int64{1, 7}, 5, Bound{Machines: 4, Cost: 4}},
		{"dimension that no machine offers", []binpack.MachineLine{packtest.Line(3, 1, 10, 0)}, []int64{1, 1}, 5, Bound{Machines: 1, Cost: 1, Short: true}},
		// 2⁵⁰·2³⁰ = 2⁸⁰ of 2⁵⁰
		{"beyond 64 bits", []binpack.MachineLine{packtest.Line(-1, 1, 1<<50)}, []int64{1 << 50}, 1 << 30, Bound{Machines: 1 << 30, Cost: 1 << 30}},
		{"free machines", []binpack.MachineLine{packtest.Line(2, 0, 10), packtest.Line(-1, 3, 10)}, []int64{10}, 5, Bound{Machines: 5, Cost: 9}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.want.Method = "volume"
			assert.Equal(t, tt.want, Volume(packtest.Instance(tt.lines, tt.item), []int64{tt.n}))
		})
	}
}

// bruteForce tries every number of machines of each line, by fractions of the
// last kind for the cost, dimension by dimension, in big integers.
func bruteForce(inst *binpack.Instance, items []int64) (machines int, cost *big.Rat, short bool) {
	cost = new(big.Rat)
	for d := range inst.Dimensions {
		need := new(big.Int)
		for a, n := range items {
			need.Add(need, new(big.Int).Mul(big.NewInt(n), big.NewInt(inst.Apps[a].Demand[d])))
		}
		bestN, bestCost := -1, (*big.Rat)(nil)
		count := make([]int64, len(inst.Machines))
		var try func(i int)
		try = func(i int) {
			if i < len(count) {
				for count[i] = 0; count[i] <= int64(inst.Machines[i].Count); count[i]++ {
					try(i + 1)
				}
				count[i] = 0
				return
			}
			have, n, sum := new(big.Int), 0, new(big.Rat)
			for j, m := range inst.Machines {
				have.Add(have, new(big.Int).Mul(big.NewInt(count[j]), big.NewInt(m.Capacity[d])))
				n += int(count[j])
				sum.Add(sum, new(big.Rat).SetInt64(count[j]*int64(m.Cost)))
			}
			if have.Cmp(need) >= 0 {
				if bestN < 0 || n < bestN {
					bestN = n
				}
				if bestCost == nil || sum.Cmp(bestCost) < 0 {
					bestCost = sum
				}
				return
			}
			// The rest by a part of one further machine.
			for j, m := range inst.Machines {
				rest := new(big.Rat).SetInt(new(big.Int).Sub(need, have))
				if count[j] == int64(m.Count) || rest.Cmp(new(big.Rat).SetInt64(m.Capacity[d])) > 0 {
					continue
				}
				part := rest.Quo(rest, new(big.Rat).SetInt64(m.Capacity[d]))
				part.Mul(part, new(big.Rat).SetInt64(int64(m.Cost)))
				part.Add(part, sum)
				if bestCost == nil || part.Cmp(bestCost) < 0 {
					bestCost = part
				}
			}
		}
		try(0)
		if bestN < 0 {
			return 0, nil, true
		}
		machines = max(machines, bestN)
		if bestCost.Cmp(cost) > 0 {
			cost = bestCost
		}
	}
	return machines, cost, false
}

func TestVolumeAgreesWithBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	shorts := 0
	for range 3000 {
		dims := 1 + rng.IntN(2)
		unit := int64(1)
		if rng.IntN(3) == 0 {
			unit = 1 << 46
		}
		vector := func(low, n int64) []int64 {
			v := make([]int64, dims)
			for d := range v {
				v[d] = (low + rng.Int64N(n)) * unit
			}
			return v
		}
		var lines []binpack.MachineLine
		for range 1 + rng.IntN(3) {
			lines = append(lines, packtest.Line(rng.IntN(4), float64(rng.IntN(6)), vector(1, 9)...))
		}
		inst := packtest.Instance(lines, vector(0, 4), vector(0, 4))
		items := []int64{rng.Int64N(6), rng.Int64N(6)}
		got := Volume(inst, items)
		machines, cost, short := bruteForce(inst, items)
		require.Equal(t, short, got.Short)
		if short {
			shorts++
			continue
		}
		require.Equal(t, machines, got.Machines, "%+v %v", inst, items)
		up, _ := cost.Float64()
		require.InDelta(t, math.Ceil(up), got.Cost, 0, "%+v %v", inst, items)
	}
	assert.Greater(t, shorts, 100)
}

func TestVolumeOverTime(t *testing.T) {
	inst := packtest.Instance([]binpack.MachineLine{packtest.Line(-1, 2, 10)}, []int64{4})
	changes := []Change{
		{0, 0, 3},                // 12: 2 machines, cost ceil(2.4) = 3
		{10, 0, -3}, {10, 0, 10}, // 40: 4 machines, cost 8; never 13 items
		{20, 0, -10}, // 0
		{30, 0, 1},   // 4: 1 machine, cost 1
		{40, 0, -1},
	}
	want := Bound{Machines: 4, Cost: 8, MachineSeconds: 20 + 40 + 0 + 10, CostSeconds: 30 + 80 + 0 + 10, Method: "volume"}
	assert.Equal(t, want, VolumeOverTime(inst, changes, math.NaN()))
	want.MachineSeconds, want.CostSeconds = 20+10, 40+10 // from 15
	assert.Equal(t, want, VolumeOverTime(inst, changes, 15))
	assert.Equal(t, Bound{Machines: 6, Cost: 11, Method: "volume"}, // 13 items: 52 and 10.4
		VolumeOverTime(inst, []Change{{0, 0, 3}, {10, 0, 10}}, math.NaN()))
	assert.Equal(t, Bound{Method: "volume"}, VolumeOverTime(inst, nil, math.NaN()))
	assert.Panics(t, func() { VolumeOverTime(inst, []Change{{0, 0, 1}, {1, 0, -2}}, 0) })
}

// The running bound equals the bound of each instant taken by itself.
func TestVolumeOverTimeAgreesWithVolume(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	inst := packtest.Instance([]binpack.MachineLine{packtest.Line(2, 3, 10, 7), packtest.Line(-1, 4, 8, 9)}, []int64{2, 1}, []int64{1, 3})
	items := make([]int64, 2)
	var changes []Change
	want := Bound{Method: "volume"}
	for now := range 500 {
		a := rng.IntN(2)
		n := rng.Int64N(items[a]+6) - items[a]
		items[a] += n
		changes = append(changes, Change{float64(now), int32(a), int32(n)})
		b := Volume(inst, items)
		want.Machines, want.Cost = max(want.Machines, b.Machines), max(want.Cost, b.Cost)
		if now < 499 {
			want.MachineSeconds += float64(b.Machines)
			want.CostSeconds += b.Cost
		}
	}
	assert.Equal(t, want, VolumeOverTime(inst, changes, math.NaN()))
}

func BenchmarkVolumeOverTime(b *testing.B) {
	rng := rand.New(rand.NewPCG(5, 6))
	bench := func(name string, dims, lines, events int, departures bool) {
		b.Run(name, func(b *testing.B) {
			vector := func(n int64) []int64 {
				v := make([]int64, dims)
				for d := range v {
					v[d] = 1 + rng.Int64N(n)
				}
				return v
			}
			var machines []binpack.MachineLine
			for range lines {
				machines = append(machines, packtest.Line(1000, float64(1+rng.IntN(5)), vector(1000)...))
			}
			inst := packtest.Instance(machines, vector(9), vector(9))
			var changes []Change
			for i := range events {
				c := Change{float64(i), int32(i % 2), 1}
				if departures && i > 10000 && i%4 > 1 {
					c.Count = -1
				}
				changes = append(changes, c)
			}
			b.ReportAllocs()
			for b.Loop() {
				VolumeOverTime(inst, changes, math.NaN())
			}
			b.ReportMetric(float64(events)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
	bench("dims=2/lines=1/events=1e6/departures", 2, 1, 1e6, true)
	bench("dims=2/lines=5000/events=1e6/departures", 2, 5000, 1e6, true)
	bench("dims=200/lines=2/events=68000", 200, 2, 68000, false)
	bench("dims=200/lines=2/events=68000/departures", 200, 2, 68000, true)
}

func ExampleVolume() {
	// 340 containers of 4 cores need 1,360 cores: 14.2 machines of 96.
	inst := packtest.Instance([]binpack.MachineLine{packtest.Line(binpack.Unlimited, 1, 96)}, []int64{4})
	fmt.Println(Volume(inst, []int64{340}).Machines)
	// Output: 15
}
