package linear

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/learned"
)

// What a pod sends is to a group: apps of it that nothing lives of, which a cluster may not know
// yet, change nothing, and two sizes of it get what one would.
func TestPartnersAreGroups(t *testing.T) {
	p, err := New(learned.Spec{Knowledge: binpack.K0, Features: []string{"partners"}, Weights: []float64{1}})
	require.NoError(t, err)
	share := func(apps []string, paired bool, place ...[2]int32) float64 {
		inst := &binpack.Instance{
			Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}}, Types: []string{""},
			Groups:   []binpack.Group{{Name: "web"}, {Name: "db"}, {Name: "cache"}},
			Machines: []binpack.MachineLine{{Name: "m", Count: 3, Capacity: []int64{99}}},
		}
		group := map[string]int32{"web": 0, "db": 1, "db2": 1, "cache": 2}
		for i, name := range apps {
			inst.Apps = append(inst.Apps, binpack.App{Name: name, Group: group[name], Demand: []int64{1}, Expected: -1, Lifetime: -1})
			if bits := map[string]float64{"db": 30, "db2": 30, "cache": 10}[name]; bits > 0 {
				inst.Pairs = append(inst.Pairs, binpack.Pair{App: 0, Other: int32(i), Bits: bits, Paired: paired})
			}
		}
		s := binpack.NewState(inst)
		for _, at := range place {
			s.Place(binpack.Item{App: at[0]}, at[1], nil)
		}
		l := NewScorer(p, s)
		return l.local(0, 0, l.traffic(0))
	}
	db := [][2]int32{{1, 0}, {1, 1}}
	require.InDelta(t, .5, share([]string{"web", "db"}, false, db...), 1e-12)
	require.InDelta(t, .5, share([]string{"web", "db", "db2"}, false, db...), 1e-12)
	require.InDelta(t, .5, share([]string{"web", "db", "db2", "cache"}, false, db...), 1e-12)
	require.InDelta(t, .5, share([]string{"web", "db", "db2"}, false, [2]int32{1, 0}, [2]int32{2, 1}), 1e-12)
	require.InDelta(t, .75, share([]string{"web", "db", "db2", "cache"}, false, [2]int32{1, 0}, [2]int32{2, 0}, [2]int32{3, 1}), 1e-12)
	require.InDelta(t, 1, share([]string{"web", "db", "db2", "cache"}, true, db...), 1e-12)
	require.InDelta(t, 0, share([]string{"web", "db", "db2"}, true, [2]int32{2, 0}, [2]int32{0, 0}), 1e-12, "that one has its partner")
}
