package drift

import (
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// KolmogorovSmirnov compares two samples. It returns the largest distance between their empirical distributions, and
// the probability of a distance at least as large if both are from one distribution: with n = a·b ÷ (a + b) and
// λ = (√n + .12 + .11 ÷ √n)·distance,
//
//	p = 2·Σ (−1)^(k−1)·exp(−2·k²·λ²)
//
// (Smirnov, 1948; the correction is Stephens', 1970). Values that several flows share make p too large, never too
// small. A sample that is empty, or has a value that is no number, is an error.
func KolmogorovSmirnov(a, b []float64) (distance, p float64, err error) {
	if len(a) == 0 || len(b) == 0 {
		return 0, 0, errors.New("drift: a sample without values")
	}
	a, b = slices.Clone(a), slices.Clone(b)
	for _, sample := range [][]float64{a, b} {
		if slices.ContainsFunc(sample, math.IsNaN) {
			return 0, 0, errors.New("drift: value is NaN")
		}
		slices.Sort(sample)
	}
	distance = stat.KolmogorovSmirnov(a, nil, b, nil)
	n := math.Sqrt(float64(len(a)) * float64(len(b)) / float64(len(a)+len(b)))
	lambda := (n + .12 + .11/n) * distance
	if lambda < .2 {
		return distance, 1, nil // the series converges slowly there, to 1 within 1e-12
	}
	for k, sign := 1., 1.; k <= 100; k, sign = k+1, -sign {
		term := 2 * math.Exp(-2*k*k*lambda*lambda)
		p += sign * term
		if term < 1e-12 {
			break
		}
	}
	return distance, min(max(p, 0), 1), nil
}
