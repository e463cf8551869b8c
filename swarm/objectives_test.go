package swarm

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// The usual test functions, all with minimum 0.

func sphere(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	return sum
}

func rosenbrock(x []float64) float64 {
	sum := 0.0
	for i := range len(x) - 1 {
		a, b := x[i+1]-x[i]*x[i], 1-x[i]
		sum += 100*a*a + b*b
	}
	return sum
}

func rastrigin(x []float64) float64 {
	sum := 10 * float64(len(x))
	for _, v := range x {
		sum += v*v - 10*math.Cos(2*math.Pi*v)
	}
	return sum
}

// shifted moves the minimum of f away from the middle of the box, where an
// optimiser that begins there would find it by luck.
func shifted(f func([]float64) float64) func([]float64) float64 {
	return func(x []float64) float64 {
		y := make([]float64, len(x))
		for d := range x {
			y[d] = x[d] - .7
		}
		return f(y)
	}
}

// optimisers are the constructors under test.
var optimisers = []struct {
	name string
	make func(Search) (Optimizer, error)
}{
	{"pso", func(s Search) (Optimizer, error) { return NewPSO(s, DefaultPSO()) }},
	{"pso-ring", func(s Search) (Optimizer, error) {
		p := DefaultPSO()
		p.Topology = Ring
		return NewPSO(s, p)
	}},
	{"random", func(s Search) (Optimizer, error) { return NewRandomSearch(s) }},
	{"cmaes", func(s Search) (Optimizer, error) { return NewCMAES(s) }},
}

// minimize runs the named optimiser and fails the test on an error.
func minimize(t testing.TB, name string, s Search, f func([]float64) float64, o Options) Result {
	t.Helper()
	r, err := Minimize(context.Background(), newOptimiser(t, name, s), Parallel(1, Func(f)), o)
	require.NoError(t, err)
	return r
}

func newOptimiser(t testing.TB, name string, s Search) Optimizer {
	t.Helper()
	for _, o := range optimisers {
		if o.name == name {
			opt, err := o.make(s)
			require.NoError(t, err)
			return opt
		}
	}
	require.FailNow(t, "no optimiser "+name)
	return nil
}
