package swarm

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReflect(t *testing.T) {
	// A box of width 4 from 1 to 5.
	for _, c := range []struct {
		name         string
		x, v         float64
		wantX, wantV float64
	}{
		{"inside", 2, 1, 2, 1},
		{"on the lower wall", 1, -1, 1, -1},
		{"on the upper wall", 5, 1, 5, 1},
		{"below", 0.5, -1, 1.5, 1},      // 1 + (1 − 0.5)
		{"above", 5.5, 1, 4.5, -1},      // 5 − (5.5 − 5)
		{"two walls", 10, 6, 2, 6},      // 5 over: 4 down to 1, 1 up
		{"three walls", -8, -10, 2, 10}, // 9 under: 4 up to 5, 4 down to 1, 1 up
		{"onto a wall", 9, 6, 1, 6},     // 4 over: down to 1, which counts as met
	} {
		t.Run(c.name, func(t *testing.T) {
			x, v := []float64{c.x}, []float64{c.v}
			Box{Lo: []float64{1}, Hi: []float64{5}}.Reflect(x, v)
			assert.Equal(t, c.wantX, x[0])
			assert.Equal(t, c.wantV, v[0])
		})
	}
}

func TestReflectFixedDimension(t *testing.T) {
	x, v := []float64{3}, []float64{1}
	Box{Lo: []float64{2}, Hi: []float64{2}}.Reflect(x, v)
	assert.Equal(t, []float64{2}, x)
	assert.Equal(t, []float64{0}, v)
}

// Whatever comes in, the result is inside, the speed is kept, and a particle
// that crossed one wall flies away from it.
func TestReflectProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		lo := rng.NormFloat64() * math.Pow(10, float64(rng.IntN(9)-3))
		b := Box{Lo: []float64{lo}, Hi: []float64{lo + rng.ExpFloat64()}}
		from, w := b.Lo[0]+rng.Float64()*b.width(0), b.width(0)
		step := rng.NormFloat64() * w
		x, v := []float64{from + step}, []float64{step}
		crossed := !b.Contains(x)
		b.Reflect(x, v)
		require.True(t, b.Contains(x), "%v outside %v", x, b)
		require.Equal(t, math.Abs(step), math.Abs(v[0]))
		if crossed && math.Abs(step) < w {
			require.Equal(t, -step, v[0])
		}
	}
}

func FuzzReflect(f *testing.F) {
	f.Add(0.0, 1.0, 2.5)
	f.Add(-1e300, 1e300, math.Inf(1))
	f.Add(1.0, 1.0, math.NaN())
	f.Fuzz(func(t *testing.T, lo, hi, at float64) {
		b := Box{Lo: []float64{lo}, Hi: []float64{hi}}
		if b.Validate() != nil {
			return
		}
		x := []float64{at}
		b.Reflect(x, nil)
		require.True(t, b.Contains(x), "%v outside [%v, %v]", x, lo, hi)
	})
}

func TestBoxValidate(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		name string
		box  Box
		want string
	}{
		{"no dimension", Box{}, "no dimension"},
		{"lengths", Box{Lo: []float64{0, 0}, Hi: []float64{1}}, "2 lower and 1 upper"},
		{"order", Box{Lo: []float64{0, 2}, Hi: []float64{1, 1}}, "dimension 1: no interval [2, 1]"},
		{"NaN", Cube(1, nan, 1), "no interval"},
		{"upper NaN", Cube(1, 0, nan), "no interval"},
		{"infinite", Cube(1, 0, inf), "no interval"},
		{"both infinite", Cube(1, inf, inf), "no interval"},
		{"too wide", Cube(1, -1e308, 1e308), "no interval"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.ErrorContains(t, c.box.Validate(), c.want)
			for _, o := range optimisers {
				_, err := o.make(Search{Box: c.box})
				require.ErrorContains(t, err, c.want)
			}
		})
	}
	require.NoError(t, Cube(3, 1, 1).Validate())
}

func TestDiversity(t *testing.T) {
	b := Box{Lo: []float64{0, 0, 7}, Hi: []float64{2, 10, 7}}
	// Opposite corners are 1 apart, the same place 0; the fixed dimension does
	// not count. (1 + 0) ÷ 2.
	assert.Equal(t, .5, b.diversity([][]float64{{0, 0, 7}, {2, 10, 7}}, []float64{2, 10, 7}))
	// √((½² + 0²) ÷ 2)
	assert.Equal(t, math.Sqrt(.125), b.diversity([][]float64{{1, 0, 7}}, []float64{0, 0, 7}))
}
