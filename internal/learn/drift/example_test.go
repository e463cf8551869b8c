package drift_test

import (
	"fmt"

	"github.com/sigma-scheduler/sigma/internal/learn/drift"
)

func Example() {
	p, err := drift.NewPageHinkley(drift.Settings{Delta: drift.DefaultDelta, Lambda: drift.DefaultLambda, Reference: 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	values := []float64{10, 11, 9, 10, 12, 8, 10, 11, 9, 10, 10, 11, 9, 17, 18, 16, 17, 18}
	for i, x := range values {
		change, err := p.Observe(x)
		if err != nil {
			fmt.Println(err)
			return
		}
		if change != drift.None {
			fmt.Printf("value %d: %s\n", i, change)
		}
	}
	// Output: value 17: up
}
