package bound

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize/convex/lp"
)

// The simplex method agrees with gonum's, and its prices are those of a dual
// solution of the same value.
func TestSimplex(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for range 200 {
		rows, extra := 1+rng.IntN(12), 1+rng.IntN(40)
		var basis []column
		rhs := make([]float64, rows)
		for r := range rows {
			rhs[r] = 1 + 9*rng.Float64() // gonum's cycles where ratios tie
			basis = append(basis, column{rows: []int32{int32(r)}, value: []float64{1}, cost: 1 + rng.Float64()})
		}
		p := newProgram(slices.Clone(rhs), slices.Clone(basis))
		a := mat.NewDense(rows, rows+extra, nil)
		var cost []float64
		for j := range rows + extra {
			c := column{cost: 1}
			if j < rows {
				c = basis[j]
			} else {
				one := rng.IntN(rows)
				for r := range rows {
					if r == one || rng.IntN(3) == 0 {
						c.rows, c.value = append(c.rows, int32(r)), append(c.value, 1+3*rng.Float64())
					}
				}
				p.add(c)
				work := int64(1e6)
				require.True(t, p.solve(&work)) // from the last basis, column by column
			}
			for k, r := range c.rows {
				a.Set(int(r), j, c.value[k])
			}
			cost = append(cost, c.cost)
		}
		initial := make([]int, rows)
		for i := range initial {
			initial[i] = i
		}
		want, _, err := lp.Simplex(cost, a, rhs, 0, initial)
		require.NoError(t, err)
		require.InDelta(t, want, p.value(), 1e-7)
		dual := 0.0
		for r := range rows {
			dual += p.y[r] * rhs[r]
		}
		require.InDelta(t, want, dual, 1e-7)
		for j := range p.columns {
			require.GreaterOrEqual(t, p.columns[j].cost-p.columns[j].dot(p.y), -1e-7)
		}
		require.True(t, p.refactor())
		require.InDelta(t, want, p.value(), 1e-7)
	}
}
