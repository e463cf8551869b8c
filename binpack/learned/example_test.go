package learned_test

import (
	"fmt"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/learned"
	"github.com/sigma-scheduler/sigma/binpack/learned/linear"
	"github.com/sigma-scheduler/sigma/binpack/learned/planned"
)

func ExampleModel() {
	spec := learned.Spec{Knowledge: binpack.K0, Features: []string{"util:cpu"}, Weights: []float64{1}}
	fmt.Println(linear.Model.Check(spec))
	fmt.Println(planned.Model.Check(spec))
	p, err := linear.Model.Build(spec)
	fmt.Println(p.Knowledge(), err)
	// Output:
	// <nil>
	// spec.features[0] "util:cpu": the model plan has no features
	// K0 <nil>
}
