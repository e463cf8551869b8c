package sim

import (
	"math"

	"github.com/sigma-scheduler/sigma/flow"
)

// Closed forms of an M/G/1 queue at a load below 1, on a link of c bytes per second.
// λ·E[X] = load·c.

// FairSlowdown is the mean slowdown of processor sharing, for every size:
// 1 ÷ (1 − load).
func FairSlowdown(load float64) float64 { return 1 / (1 - load) }

// FirstBandSlowdown is the mean slowdown of flows that end in the first band:
// 1 ÷ (1 − λ·E[min(X, α)] ÷ c).
func FirstBandSlowdown(s *flow.Sizes, load, threshold float64) float64 {
	first, _ := s.Capped(threshold)
	return 1 / (1 - load*first/s.Mean())
}

// SRPTMean is the mean time of Schrage and Miller, in seconds:
//
//	T(x) = λ·(E[X²; X ≤ x] + x²·P(X > x)) ÷ (2·c²·(1 − ρ(x))²) + ∫₀ˣ dt ÷ (c·(1 − ρ(t)))
//
// with ρ(x) = λ·E[X; X ≤ x] ÷ c. The sizes must have no value that many flows share.
func SRPTMean(s *flow.Sizes, load, rate float64) float64 {
	c := rate / 8
	perByte := load / s.Mean() // λ ÷ c
	mean, residence := 0., 0.
	integrate(s, func(low, high, mass float64) {
		x := (low + high) / 2
		first, second := s.Below(x)
		left := 1 - perByte*first
		half := (high - low) / 2
		residence += half / left // up to the middle
		wait := perByte * (second + x*x*(1-s.CDF(x))) / (2 * left * left)
		mean += mass * (wait + residence)
		residence += half / left
	})
	return mean / c
}

// LASMean is the mean time of least attained service, in seconds (Kleinrock):
//
//	T(x) = (W(x) + x ÷ c) ÷ (1 − ρ(x)), W(x) = λ·E[min(X, x)²] ÷ (2·c²·(1 − ρ(x)))
//
// with ρ(x) = λ·E[min(X, x)] ÷ c.
func LASMean(s *flow.Sizes, load, rate float64) float64 {
	perByte := load / s.Mean()
	mean := 0.
	integrate(s, func(low, high, mass float64) {
		x := (low + high) / 2
		first, second := s.Capped(x)
		left := 1 - perByte*first
		mean += mass * (perByte*second/(2*left) + x) / left
	})
	return mean / (rate / 8)
}

// integrate calls f for small parts of the sizes, from 0 up, each with its mass.
func integrate(s *flow.Sizes, f func(low, high, mass float64)) {
	const parts = 2000
	last := flow.Point{}
	for _, p := range s.Points() {
		for k := range parts {
			low := last.Size + (p.Size-last.Size)*float64(k)/parts
			high := last.Size + (p.Size-last.Size)*float64(k+1)/parts
			f(low, high, (p.CDF-last.CDF)/parts)
		}
		last = p
	}
}

// Cascade is the closed form of the mean time in seconds of bands, with no hints:
//
//	T(x) = (W(α) + α ÷ c) ÷ (1 − ρ(α)) + (x − α) ÷ (c·(1 − ρ(β)))
//
// for a flow of x bytes that ends in the band from α to β, with ρ(a) = λ·E[min(X, a)] ÷ c and
// W(a) = λ·E[min(X, a)²] ÷ (2·c²·(1 − ρ(a))). It is exact for the first band and for one
// band; it ignores that flows reach a deeper band in batches.
func Cascade(s *flow.Sizes, load, rate float64, thresholds flow.Thresholds) (fct, slowdown float64) {
	perByte := load / s.Mean()
	alpha, before, beforeSecond := 0., 0., 0.
	low := s.CDF(0)
	for b := 0; b <= len(thresholds); b++ {
		beta := math.Inf(1)
		if b < len(thresholds) {
			beta = float64(thresholds[b])
		}
		first, second := s.Capped(beta)
		wait := 0.
		if b > 0 {
			left := 1 - perByte*before
			wait = (perByte*beforeSecond/(2*left) + alpha) / left
		}
		share := 1 - perByte*first
		mass := s.CDF(beta) - low
		if mass > 0 {
			// E[X − α; α < X ≤ β] = E[min(X, β)] − E[min(X, α)] − (β − α)·P(X > β).
			inside := first - before
			if over := 1 - s.CDF(beta); over > 0 {
				inside -= (beta - alpha) * over
			}
			fct += mass*wait + inside/share
			slowdown += mass / share
			if b > 0 {
				slowdown += s.Inverse(alpha, beta) * (wait - alpha/share)
			}
		}
		alpha, before, beforeSecond, low = beta, first, second, s.CDF(beta)
	}
	return fct / (rate / 8), slowdown
}
