package nn_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/sigma-scheduler/sigma/internal/learn/nn"
)

// A network learns exclusive or.
func Example() {
	rng := rand.New(rand.NewPCG(1, 0))
	net, err := nn.NewMLP[float32](rng, nn.Shape{Sizes: []int{2, 8, 1}, Hidden: nn.Tanh, Output: nn.Sigmoid}, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	x := nn.Matrix[float32]{Rows: 4, Cols: 2, Data: []float32{0, 0, 0, 1, 1, 0, 1, 1}}
	want := nn.Matrix[float32]{Rows: 4, Cols: 1, Data: []float32{0, 1, 1, 0}}
	pass, adam := net.Pass(4), nn.NewAdam[float32](.02, len(net.Params()))
	d, grad := nn.NewMatrix[float32](4, 1), make([]float32, len(net.Params()))
	for range 1000 {
		nn.MSE(pass.Forward(x), want, d)
		clear(grad)
		pass.Backward(d, grad, false)
		adam.Step(net.Params(), grad)
	}
	for i, y := range pass.Forward(x).Data {
		fmt.Printf("%v: %.1f\n", x.Row(i), y)
	}
	// Output:
	// [0 0]: 0.0
	// [0 1]: 1.0
	// [1 0]: 1.0
	// [1 1]: 0.0
}
