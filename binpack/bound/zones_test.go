package bound

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
)

// Items that limits and rules by zone keep apart need machines of their own.
func TestZonesNeedMachines(t *testing.T) {
	for _, c := range []struct {
		name     string
		zone     binpack.ZoneLimits
		rules    []binpack.Rule
		items    []int64 // of the apps a and b
		want     int64
		departed int64 // where an item of a has come and left before
	}{
		{"nothing", binpack.ZoneLimits{}, nil, []int64{4, 4}, 1, 1},
		{"a limit", binpack.ZoneLimits{Limit: 2}, nil, []int64{5, 0}, 3, 3},
		{"a spread", binpack.ZoneLimits{SpreadMin: 2}, nil, []int64{5, 0}, 2, 1},
		{"of few items", binpack.ZoneLimits{SpreadMin: 3}, nil, []int64{2, 0}, 2, 1},
		{"skew 1", binpack.ZoneLimits{Skew: 1}, nil, []int64{7, 0}, 3, 1},
		{"skew 2", binpack.ZoneLimits{Skew: 2}, nil, []int64{7, 0}, 3, 1},
		{"skew 2 of few items", binpack.ZoneLimits{Skew: 2}, nil, []int64{3, 0}, 2, 1},
		{"a wide skew", binpack.ZoneLimits{Skew: 9}, nil, []int64{7, 0}, 1, 1},
		{"apart", binpack.ZoneLimits{}, []binpack.Rule{{A: 0, B: 1}}, []int64{1, 1}, 2, 2},
		{"apart but outside", binpack.ZoneLimits{}, []binpack.Rule{{A: 0, B: 1}}, []int64{1, 1}, 1, 1},
		{"apart and not outside", binpack.ZoneLimits{Limit: 5}, []binpack.Rule{{A: 0, B: 1}}, []int64{1, 1}, 2, 2},
		{"at most one", binpack.ZoneLimits{}, []binpack.Rule{{A: 0, B: 1, Max: 1}}, []int64{1, 1}, 1, 1},
	} {
		inst := &binpack.Instance{
			Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}}, Types: []string{""}, Groups: make([]binpack.Group, 2), ZoneRules: c.rules,
			Apps: []binpack.App{{Name: "a", Group: 0, Demand: []int64{1}}, {Name: "b", Group: 1, Demand: []int64{1}}},
		}
		inst.Groups[0].Zone = c.zone
		zones := []string{"x", "y", "z", "z", ""}
		if c.name == "apart" {
			zones = zones[:4]
		}
		for i, zone := range zones {
			inst.Machines = append(inst.Machines, binpack.MachineLine{Name: fmt.Sprint(i), Zone: zone, Count: binpack.Unlimited, Capacity: []int64{100}, Cost: 1})
		}
		require.EqualValues(t, c.want, Best(t.Context(), inst, c.items, Options{}).Machines, c.name)
		require.Equal(t, c.zone, inst.Groups[0].Zone, "the instance stays as it is")
		changes := []Change{{Time: 0, App: 0, Count: 1}, {Time: 1, App: 0, Count: -1}}
		for a, n := range c.items {
			changes = append(changes, Change{Time: 2, App: int32(a), Count: int32(n)})
		}
		require.EqualValues(t, c.departed, BestOverTime(t.Context(), inst, changes, 0, Options{}).Machines, c.name)
	}
}
