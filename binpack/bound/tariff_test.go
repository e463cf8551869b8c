package bound

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/packtest"
)

// Tariffs bound every moment: here the peak as the linear program of the peak
// does, and others far beyond volume and cliques, since what is limited does not
// fit on the machines that are cheap for the rest.
func TestTariffs(t *testing.T) {
	inst := packtest.Instance([]binpack.MachineLine{packtest.Line(-1, 1, 4), packtest.Line(-1, 3, 16)}, []int64{1}, []int64{4})
	inst.Groups[0].Limit = 1
	var changes []Change
	for i := range 40 {
		changes = append(changes, Change{float64(i), int32(i % 2), 1})
	}
	for i := range 40 {
		changes = append(changes, Change{float64(40 + i), int32(i % 2), -1})
	}
	over := BestOverTime(t.Context(), inst, changes, math.NaN(), Options{Work: 1e8})
	items := make([]int64, 2)
	want := Bound{}
	for i, c := range changes {
		items[c.App] += int64(c.Count)
		b := Best(t.Context(), inst, items, Options{Work: 1e8})
		span := 1.
		if i == len(changes)-1 {
			span = 0
		}
		want.pass(b.Bound, span)
	}
	require.Equal(t, want.Machines, over.Machines)
	require.InDelta(t, want.Cost, over.Cost, 0)
	require.LessOrEqual(t, over.CostSeconds, want.CostSeconds)
	require.Greater(t, over.CostSeconds, .97*want.CostSeconds)
	cheap := BestOverTime(t.Context(), inst, changes, math.NaN(), Options{})
	require.Greater(t, over.CostSeconds, 1.1*cheap.CostSeconds)
	require.Equal(t, MethodColumns, over.Each[3].Method)
}

// Costs of tariffs are exact where they can be.
func TestTariffCosts(t *testing.T) {
	tariff := tariff{worth: 7, cost: 3, total: 14}
	assert.InDelta(t, 6, tariff.costs(true), 0)
	tariff.total = 15
	assert.InDelta(t, 7, tariff.costs(true), 0) // 45/7
	assert.InDelta(t, 45./7, tariff.costs(false), 1e-11)
	assert.Less(t, tariff.costs(false), 45./7)
	tariff.total, tariff.cost = 1<<60, 1<<40
	assert.InEpsilon(t, float64(1<<60)/7*(1<<40), tariff.costs(true), 1e-11)
}
