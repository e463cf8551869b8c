package cerebro_test

import (
	"fmt"
	"math"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// Two requests, and a delete between them, under Best-Fit.
func Example() {
	tr := &trace.Trace{
		Name: "tiny", MeasureFrom: math.NaN(),
		Instance: &binpack.Instance{
			Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}},
			Types:      []string{"node"},
			Fleet:      binpack.Open,
			Machines:   []binpack.MachineLine{{Name: "node", Count: binpack.Unlimited, Cost: 1, Capacity: []int64{8}}},
			Groups:     []binpack.Group{{Name: "web"}, {Name: "db"}},
			Apps: []binpack.App{
				{Name: "web", Group: 0, Demand: []int64{3}, Expected: -1, Lifetime: -1},
				{Name: "db", Group: 1, Demand: []int64{5}, Expected: -1, Lifetime: -1},
			},
		},
		Requests: []trace.Request{{Name: "a", App: 0, Count: 3}, {Name: "b", App: 1, Count: 1}},
		Events: []trace.Event{
			{Time: 0, Kind: trace.Create, Request: 0, Count: 3},
			{Time: 60, Kind: trace.Delete, Request: 0, Count: 1},
			{Time: 90, Kind: trace.Create, Request: 1, Count: 1},
			{Time: 120, Kind: trace.Delete, Request: 1, Count: 1},
		},
	}
	r := cerebro.NewReplayer(tr)
	run, err := r.Run(rule.BestFit{}, cerebro.Options{
		Check: true,
		Record: func(d cerebro.Decision) {
			fmt.Println(d.Time, d.Kind, tr.Requests[d.Request].Name, d.Item, tr.MachineName(r.State().Position(d.Machine)))
		},
	})
	if err != nil {
		panic(err)
	}
	fmt.Printf("machines %d, at most %d, %g machine seconds, violations %d\n",
		run.Machines, run.PeakMachines, run.MachineSeconds, run.Violations)
	// Output:
	// 0 place a 0 node-00000
	// 0 place a 1 node-00000
	// 0 place a 2 node-00001
	// 60 remove a 2 node-00001
	// 90 place b 0 node-00001
	// 120 remove b 0 node-00001
	// machines 1, at most 2, 210 machine seconds, violations 0
}
