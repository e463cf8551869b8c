package bound

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/packtest"
)

// Over time, volume and limit are those of each moment, computed separately, and the
// strongest is never below either.
func TestOverTime(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	beyond := 0
	asked := Options{Steps: true}
	for range 60 {
		inst, _ := tiny(rng)
		for g := range inst.Groups {
			inst.Groups[g].SpreadMin = 0
		}
		items := make([]int64, len(inst.Apps))
		var changes []Change
		volume, limit := Bound{Method: MethodVolume}, Bound{Method: MethodLimit}
		least := Bound{}
		var moments []int
		for now := range 80 {
			a := rng.IntN(len(items))
			n := rng.Int64N(items[a]+4) - items[a]
			items[a] += n
			changes = append(changes, Change{float64(now), int32(a), int32(n)})
			span := 0.
			if now < 79 && now >= 10 {
				span = 1
			}
			v, l := Volume(inst, items), Limit(inst, items)
			volume.pass(v, span)
			limit.pass(l, span)
			moments = append(moments, max(v.Machines, l.Machines))
			least.pass(Bound{Machines: max(v.Machines, l.Machines), Cost: max(v.Cost, l.Cost)}, span)
		}
		got := BestOverTime(t.Context(), inst, changes, 10, asked)
		at := 0
		for now, machines := range moments { // no step is below what holds at its moment
			for at+1 < len(got.Steps) && got.Steps[at+1].Time <= float64(now) {
				at++
			}
			require.GreaterOrEqual(t, got.Steps[at].Machines, machines)
			require.LessOrEqual(t, got.Steps[at].Machines, got.Machines)
		}
		require.Equal(t, 79., got.Steps[len(got.Steps)-1].Time)
		require.Empty(t, BestOverTime(t.Context(), inst, changes, 10, Options{}).Steps)
		short := volume.Short || limit.Short
		got.Each[0].Short, got.Each[1].Short, volume.Short, limit.Short = false, false, false, false
		require.Equal(t, volume, got.Each[0])
		if !short {
			require.Equal(t, limit, got.Each[1])
			require.True(t, got.covers(least))
			if !least.covers(got.Bound) {
				beyond++
			}
		}
	}
	require.Positive(t, beyond, "no clique was ever worth anything")
}

// Spread does not count where items leave, and Short reports what does not fit.
func TestOverTimeOfAGroup(t *testing.T) {
	inst := packtest.Instance([]binpack.MachineLine{packtest.Line(6, 1, 10)}, []int64{1})
	inst.Groups[0].SpreadMin = 4
	changes := []Change{{0, 0, 5}, {1, 0, -1}, {2, 0, 0}}
	b := BestOverTime(t.Context(), inst, changes, math.NaN(), Options{})
	assert.Equal(t, []int{1, 1, 1}, []int{b.Each[0].Machines, b.Each[1].Machines, b.Each[2].Machines})
	assert.InDelta(t, 2, b.MachineSeconds, 0)
	inst.Groups[0].Limit = 1
	b = BestOverTime(t.Context(), inst, changes, math.NaN(), Options{})
	assert.InDelta(t, 5+4, b.MachineSeconds, 0)
	assert.False(t, b.Short)
	changes[0].Count = 7
	assert.True(t, BestOverTime(t.Context(), inst, changes, math.NaN(), Options{}).Short)
}

// TestNoMachines: a cluster may have no node yet.
func TestNoMachines(t *testing.T) {
	inst := packtest.Instance([]binpack.MachineLine{packtest.Line(1, 1, 10)}, []int64{6})
	inst.Machines = nil
	b := BestOverTime(t.Context(), inst, []Change{{Count: 2}, {Time: 5, Count: -1}}, math.NaN(), Options{}).Bound
	require.Zero(t, b.Machines)
	require.Zero(t, b.Cost)
}
