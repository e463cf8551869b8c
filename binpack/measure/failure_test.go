package measure_test

import (
	"slices"
	"testing"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/measure"
)

// Two machines in zone x, one in none: of the first group 2, 1 and 1 items stand there, of the
// second one on the last.
func TestFailures(t *testing.T) {
	inst := &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}}, Types: []string{""},
		Groups: []binpack.Group{{Name: "a"}, {Name: "b"}, {Name: "none"}},
		Machines: []binpack.MachineLine{
			{Name: "m", Count: 2, Capacity: []int64{9}, Zone: "x"}, {Name: "n", Count: 1, Capacity: []int64{9}},
		},
		Apps: []binpack.App{{Name: "a1", Demand: []int64{1}}, {Name: "a2", Demand: []int64{2}}, {Name: "b", Group: 1, Demand: []int64{1}}},
	}
	place := func() *binpack.State {
		s := binpack.NewState(inst)
		for _, at := range [][2]int32{{0, 0}, {1, 0}, {0, 1}, {0, 2}, {2, 2}} {
			s.Place(binpack.Item{App: at[0]}, at[1], nil)
		}
		return s
	}
	want := []measure.Failure{{Items: 4, Machine: 2, Zone: 3}, {Items: 1, Machine: 1, Zone: 1}, {}}
	if got := measure.Failures(place()); !slices.Equal(got, want) {
		t.Error(got)
	}
	inst.Machines[0].Zone = ""
	if got := measure.Failures(place()); got[0] != (measure.Failure{Items: 4, Machine: 2}) {
		t.Error("without zones", got)
	}
}
