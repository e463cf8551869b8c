package drift

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKolmogorovByHand(t *testing.T) {
	// After 2, three quarters of the first and a quarter of the second.
	d, p, err := KolmogorovSmirnov([]float64{2, 1, 5, 1}, []float64{4, 3, 2, 6})
	require.NoError(t, err)
	require.InDelta(t, .5, d, 1e-12)
	require.Greater(t, p, .5)
	d, p, err = KolmogorovSmirnov([]float64{1, 2, 3}, []float64{3, 1, 2})
	require.NoError(t, err)
	require.Zero(t, d)
	require.Equal(t, 1., p)
	// The table of the limit: p = .05 at λ = 1.3581, .01 at 1.6276.
	a, b := make([]float64, 2000), make([]float64, 2000)
	for i := range a {
		a[i], b[i] = float64(i), float64(i)+2000*.0512
	}
	d, p, err = KolmogorovSmirnov(a, b)
	require.NoError(t, err)
	require.InDelta(t, .0515, d, .0005)
	require.InDelta(t, .01, p, .002)
}

func TestKolmogorovRefuses(t *testing.T) {
	_, _, err := KolmogorovSmirnov(nil, []float64{1})
	require.ErrorContains(t, err, "a sample without values")
	_, _, err = KolmogorovSmirnov([]float64{1}, []float64{math.NaN()})
	require.ErrorContains(t, err, "value is NaN")
}

// At 1 %: a false alarm in about a hundred comparisons of 3,000 with 250, and sizes that are half as large
// again are found.
func TestKolmogorovFinds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	lognormal := func(n int, factor float64) []float64 {
		values := make([]float64, n)
		for i := range values {
			values[i] = factor * math.Exp(2*rng.NormFloat64())
		}
		return values
	}
	const runs = 1000
	alarms, found := 0, 0
	for range runs {
		window := lognormal(3000, 1)
		_, same, err := KolmogorovSmirnov(window, lognormal(250, 1))
		require.NoError(t, err)
		_, other, err := KolmogorovSmirnov(window, lognormal(250, 3))
		require.NoError(t, err)
		if same < .01 {
			alarms++
		}
		if other < .01 {
			found++
		}
	}
	t.Logf("%d false alarms, %d found, of %d", alarms, found, runs)
	require.LessOrEqual(t, alarms, 2*runs/100)
	require.Positive(t, alarms)
	require.Equal(t, runs, found)
}
