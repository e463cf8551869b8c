package sim

import (
	"math"
	"math/rand/v2"

	"github.com/sigma-scheduler/sigma/mpa/loadsim"
)

// hostileStream is the stream of random numbers that make a scenario hostile.
const hostileStream = 0x6e7

// hostilities are the changes that make a scenario hostile, in turn by seed.
var hostilities = []struct {
	name string
	do   func(rng *rand.Rand, s *Scenario)
}{
	{"steps of ten", func(rng *rand.Rand, s *Scenario) {
		peak := s.Load.Peak()
		length := logUniform(rng, 2, 30) * 60
		every, first := length*uniform(rng, 1.5, 5), uniform(rng, .2, 1)*3600
		s.Load = perTick(func(t float64) float64 {
			if t >= first && math.Mod(t-first, every) < length {
				return peak
			}
			return peak / 10
		})
	}},
	{"no traffic", func(rng *rand.Rand, s *Scenario) {
		length, every, first := uniform(rng, 5, 40)*60, uniform(rng, 45, 80)*60, uniform(rng, 0, 1)*3600
		old := s.Load
		s.Load = perTick(func(t float64) float64 {
			if t >= first && math.Mod(t-first, every) < length {
				return 0
			}
			rate, _ := old.Rate(t)
			return rate
		})
	}},
	{"noise", func(rng *rand.Rand, s *Scenario) {
		peak, old, sigma := s.Load.Peak(), s.Load, uniform(rng, .3, .8)
		s.Load = perTick(func(t float64) float64 {
			rate, _ := old.Rate(t)
			return rate * math.Exp(sigma*rng.NormFloat64())
		}).Scale(peak)
	}},
	{"missing metrics", func(rng *rand.Rand, s *Scenario) {
		site := DefaultSite()
		site.Miss = uniform(rng, .2, .9)
		for at := uniform(rng, 0, 1) * 3600; at < s.Hours*3600; at += uniform(rng, 20, 60) * 60 {
			site.Outages = append(site.Outages, [2]float64{at, at + uniform(rng, 2, 20)*60})
		}
		s.Site = &site
	}},
	{"stale metrics", func(rng *rand.Rand, s *Scenario) {
		site := DefaultSite()
		site.Lag = uniform(rng, 45, 180)
		s.Site = &site
	}},
	// A try that is given up takes the pods' time, and is repeated up to four times.
	{"retries", func(rng *rand.Rand, s *Scenario) {
		s.App.Timeout, s.App.Retries = uniform(rng, 1.1, 2)*s.App.Target.SLO.Latency, 4
		low, at, length := uniform(rng, .1, .4), uniform(rng, .6, 2)*3600, uniform(rng, .1, 1)*3600
		peak := s.Load.Peak()
		s.Load = perTick(func(t float64) float64 {
			if t >= at && t < at+length {
				return peak
			}
			return low * peak
		})
	}},
}

// perTick makes a load in steps of ten seconds; rate, of the time in seconds, is called in
// order of time.
func perTick(rate func(t float64) float64) loadsim.Load {
	return shaped(func(hour float64) float64 { return rate(3600 * hour) })
}

// Hostile returns the scenario of a seed with conditions that its side's loads do not have:
// steps of ten, no traffic, noise, missing or stale metrics, or clients whose retries double
// the load.
func (g *Generator) Hostile(seed uint64) (Scenario, error) {
	s, err := g.Generate(seed)
	if err != nil {
		return s, err
	}
	h := hostilities[seed%uint64(len(hostilities))]
	s.Name = h.name
	h.do(rand.New(rand.NewPCG(seed, hostileStream)), &s)
	return s, s.App.prepare()
}
