package loadsim_test

import (
	"fmt"

	"github.com/sigma-scheduler/sigma/mpa/loadsim"
)

// Ten requests per second of 20 ms of cpu each, on one pod with a quota of half a core.
func Example() {
	service := loadsim.Service{
		Segments: []loadsim.Segment{{Name: "handler", CPU: loadsim.Dist{Mean: .02, CV: 1}}},
		Queue:    -1, Late: .25,
	}
	if err := service.Prepare(); err != nil {
		panic(err)
	}
	load := loadsim.Load{Step: 60, PerSec: []float64{10}}
	engine := loadsim.New(&service, 1, load.Rate)
	pod := service.NewPod(.5)
	engine.Open(&pod)
	engine.Run(3600)
	c := engine.Counters()
	fmt.Printf("%d arrived, %d answered, %d of them late\n", c.Arrived, c.Served, c.Late)
	fmt.Printf("%.2f cores on average, p95 %.0f ms\n", pod.Busy()/3600, 1000*engine.All.Percentile(95))
	// Output:
	// 35851 arrived, 35851 answered, 453 of them late
	// 0.20 cores on average, p95 135 ms
}
