package generate

import (
	"math"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// stated are the ranges that the values of an app keep, all of its items together, as shares of its
// request: the mean, and p99 ÷ mean. Values are rounded to whole units, after a cut at the limit.
type stated struct {
	units          float64 // of a quantity
	round          func(float64) float64
	request, limit float64 // units
	mean           [2]float64
	ratio          [2]float64 // 0, 0 = any
	above          bool       // p99 is above the request
}

// Values are counted by cells of their logarithm, the first for all that are smaller.
const (
	cellsOfE = 500
	cells    = 20 * cellsOfE
	cellOf1  = 16 * cellsOfE // value = request
)

func (s *stated) cell(v float32) int {
	at := math.Log(max(float64(v)*s.units/s.request, 1e-9))
	return min(max(0, cellOf1+int(math.Round(at*cellsOfE))), cells-1)
}

// settle rounds the values of an app, and moves them into its ranges: value ← factor · value^power.
// Draws alone do not keep them, since each item has its own factor, limits cut peaks, and a short
// trace may have no weekend.
func (s *stated) settle(series []*trace.Series) {
	if len(series) == 0 {
		return
	}
	counts := make([]int, cells)
	for _, one := range series {
		for _, v := range one.Values {
			counts[s.cell(v)]++
		}
	}
	to := make([]float64, cells)
	mean, ratio := s.move(counts, to, 1, 1)
	const near, inside = .005, .03 // parts of a bound
	if low, high := s.ratios(mean); within(mean, s.mean[0], s.mean[1], near) && within(ratio, low, high, near) {
		for _, one := range series {
			for i, v := range one.Values {
				one.Values[i] = float32(s.round(float64(v)*s.units) / s.units)
			}
		}
		return
	}
	mean = min(max(mean, (1+inside)*s.mean[0]), (1-inside)*s.mean[1])
	if s.above {
		mean = max(mean, 1.1/s.ratio[1])
	}
	low, high := s.ratios(mean)
	step, best, least := 1.02, 1., math.Inf(1)
	for power, i := 1., 0; i < 100 && least > 1; power, i = power*step, i+1 {
		ratio = s.raise(counts, to, power, mean)
		if i == 0 && ratio > high*(1-inside) {
			step = 1 / step
		}
		if miss := max(1, (1+inside)*low/ratio, ratio/high/(1-inside)); miss < least {
			best, least = power, miss
		}
	}
	s.raise(counts, to, best, mean)
	for _, one := range series {
		for i, v := range one.Values {
			one.Values[i] = float32(to[s.cell(v)] / s.units)
		}
	}
}

func within(v, low, high, inside float64) bool { return v >= (1+inside)*low && v <= (1-inside)*high }

// ratios are the bounds of p99 ÷ mean.
func (s *stated) ratios(mean float64) (low, high float64) {
	if s.ratio[1] == 0 {
		return 0, math.Inf(1)
	}
	if low = s.ratio[0]; s.above {
		low = max(low, 1/mean)
	}
	return low, s.ratio[1]
}

// raise moves the values by a power and the factor that leads to a mean.
func (s *stated) raise(counts []int, to []float64, power, mean float64) (ratio float64) {
	low, high := -20., 20. // logarithms of the factor
	for range 40 {
		by := (low + high) / 2
		var got float64
		if got, ratio = s.move(counts, to, power, math.Exp(by)); got < mean {
			low = by
		} else {
			high = by
		}
	}
	return ratio
}

// move sets the new value of each cell, and returns mean ÷ request and p99 ÷ mean.
func (s *stated) move(counts []int, to []float64, power, factor float64) (mean, ratio float64) {
	n, sum := 0, 0.
	for k, c := range counts {
		if c > 0 {
			to[k] = s.round(min(factor*math.Exp(power*float64(k-cellOf1)/cellsOfE)*s.request, s.limit))
			n, sum = n+c, sum+float64(float64(c)*to[k])
		}
	}
	if sum == 0 {
		return 0, 0
	}
	left := int(.99*float64(n-1)) + 1
	for k, c := range counts {
		if left -= c; left <= 0 {
			return sum / float64(n) / s.request, to[k] * float64(n) / sum
		}
	}
	panic("generate: fewer values than counted")
}
