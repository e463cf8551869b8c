package gpus_test

import (
	"fmt"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/gpus"
)

// Half of the items ask for a whole GPU; none of them can use what is left of a
// shared one.
func ExampleFragment() {
	app := func(group int32, gpu int64) binpack.App {
		return binpack.App{Group: group, Demand: []int64{1000, gpu}, Expected: 10}
	}
	s := binpack.NewState(&binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", One: 1000}, {Name: "gpu", One: 1000, Device: true}},
		Types:      []string{""},
		Machines:   []binpack.MachineLine{{Name: "m", Count: 1, Cost: 1, Capacity: []int64{8000, 2000}}},
		Groups:     []binpack.Group{{}, {}},
		Apps:       []binpack.App{app(0, 500), app(1, 1000)},
	})
	s.Known.Expected = []float64{10, 10}
	f := gpus.FragmentOf(s)
	f.Refresh()
	fmt.Println(f.Of(0, 8000, []int64{500, 1000}))
	// Output: 250
}
