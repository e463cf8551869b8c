package loadsim

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// A Dist is a distribution of a positive amount by its mean and its coefficient of
// variation: 0 a constant, 1 exponential, else lognormal.
type Dist struct {
	Mean float64
	CV   float64
}

func (d Dist) validate() error {
	if !(d.Mean >= 0 && d.Mean < 1e9 && d.CV >= 0 && d.CV < 100) {
		return fmt.Errorf("mean %v, cv %v: want a mean from 0 and a cv from 0 to 100", d.Mean, d.CV)
	}
	return nil
}

// Draw returns a sample.
func (d Dist) Draw(rng *rand.Rand) float64 { k := d.sampler(); return k.draw(rng) }

// A sampler draws from a Dist.
type sampler struct {
	mean, mu, sigma float64
	kind            byte // 'c' constant, 'e' exponential, 'l' lognormal
}

func (d Dist) sampler() sampler {
	switch {
	case d.Mean == 0 || d.CV == 0:
		return sampler{mean: d.Mean, kind: 'c'}
	case d.CV == 1:
		return sampler{mean: d.Mean, kind: 'e'}
	}
	s2 := math.Log(1 + d.CV*d.CV)
	return sampler{mean: d.Mean, mu: math.Log(d.Mean) - s2/2, sigma: math.Sqrt(s2), kind: 'l'}
}

func (s *sampler) draw(rng *rand.Rand) float64 {
	switch s.kind {
	case 'c':
		return s.mean
	case 'e':
		return s.mean * rng.ExpFloat64()
	default:
		return math.Exp(s.mu + s.sigma*rng.NormFloat64())
	}
}
