package binpack_test

import (
	"fmt"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
)

// Two large items that exclude each other and two small ones, by Best Fit.
func Example() {
	inst := &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}, {Name: "memory", One: 1}},
		Types:      []string{"node"},
		Fleet:      binpack.Open,
		Machines:   []binpack.MachineLine{{Name: "node", Count: binpack.Unlimited, Cost: 1, Capacity: []int64{8, 32}}},
		Groups:     []binpack.Group{{Name: "web"}, {Name: "db"}, {Name: "log"}},
		Apps: []binpack.App{
			{Name: "web", Group: 0, Demand: []int64{4, 8}},
			{Name: "db", Group: 1, Demand: []int64{4, 16}},
			{Name: "log", Group: 2, Demand: []int64{2, 4}},
		},
		Rules: []binpack.Rule{{A: 0, B: 1, Max: 0}},
	}
	state, checker := binpack.NewState(inst), binpack.NewChecker(inst)
	scorer := rule.BestFit{}.Scorer(state)
	for i, app := range []int32{0, 1, 2, 2} {
		item := binpack.Item{App: app, Serial: uint64(i)}
		m, err := state.Choose(scorer, item)
		if err != nil {
			fmt.Println(inst.Apps[app].Name, err)
			continue
		}
		devices := state.Place(item, m, nil)
		line, index := state.Position(m)
		fmt.Println(inst.Apps[app].Name, "on", inst.Machines[line].Name, index, "broken:", checker.Place(app, line, index, devices))
	}
	fmt.Println(state.Active(), "machines")
	// Output:
	// web on node 0 broken: <nil>
	// db on node 1 broken: <nil>
	// log on node 1 broken: <nil>
	// log on node 1 broken: <nil>
	// 2 machines
}
