package swarm_test

import (
	"context"
	"fmt"

	"github.com/sigma-scheduler/sigma/swarm"
)

// A swarm of twenty particles finds the lowest point of a bowl, with two
// workers; any other number finds the same.
func Example() {
	search := swarm.Search{Box: swarm.Cube(2, -5, 5), Seed: 1}
	pso, err := swarm.NewPSO(search, swarm.DefaultPSO())
	if err != nil {
		fmt.Println(err)
		return
	}
	bowl := func(x []float64) float64 { return (x[0]-1)*(x[0]-1) + (x[1]+2)*(x[1]+2) + 3 }

	result, err := swarm.Minimize(context.Background(), pso, swarm.Parallel(2, swarm.Func(bowl)), swarm.Options{
		Budget: 1000,
		Progress: func(s swarm.Stats) {
			if s.Generation%20 == 0 {
				fmt.Printf("generation %2d  best %.4f  diversity %.4f\n", s.Generation, s.GlobalBest, s.Diversity)
			}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.3f at %.3f after %d evaluations (%s)\n", result.Value, result.Position, result.Evaluations, result.Stop)
	// Output:
	// generation  0  best 3.7438  diversity 0.2781
	// generation 20  best 3.0007  diversity 0.0402
	// generation 40  best 3.0000  diversity 0.0076
	// 3.000 at [1.000 -2.000] after 1000 evaluations (budget)
}
