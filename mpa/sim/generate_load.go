package sim

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/sigma-scheduler/sigma/mpa/loadsim"
)

// generatedFamilies are the synthetic loads of each side, with random parameters. No family
// is on both sides. Steps of ten, sawteeth and doubling are the train side's hostile loads,
// so that a search does not spend safety that its loads never need; pulses and walks are
// the test side's own.
var generatedFamilies = map[string][]generatedLoad{
	"train": {
		{"step", func(rng *rand.Rand) (loadsim.Load, error) {
			return family(rng, "step", map[string]float64{
				"low": uniform(rng, .2, .6), "high": 1, "at": uniform(rng, .6, 2), "length": uniform(rng, .3, 1), "noise": uniform(rng, 0, .15),
			})
		}},
		{"diurnal", func(rng *rand.Rand) (loadsim.Load, error) {
			return family(rng, "diurnal", map[string]float64{
				"low": uniform(rng, .1, .5), "high": 1, "period": logUniform(rng, .5, 4), "peak": uniform(rng, 0, 3), "noise": uniform(rng, .05, .2),
			})
		}},
		{"tenfold", func(rng *rand.Rand) (loadsim.Load, error) {
			return family(rng, "step", map[string]float64{
				"low": .1, "high": 1, "at": uniform(rng, .6, 2), "length": logUniform(rng, .05, 1), "noise": uniform(rng, 0, .1),
			})
		}},
		{"sawtooth", func(rng *rand.Rand) (loadsim.Load, error) {
			period, bottom, falls := uniform(rng, .15, 1), uniform(rng, .1, .5), rng.IntN(2) == 0
			return shaped(func(hour float64) float64 {
				_, share := math.Modf(hour / period)
				if falls {
					share = 1 - share
				}
				return bottom + (1-bottom)*share
			}), nil
		}},
		{"doubling", func(rng *rand.Rand) (loadsim.Load, error) {
			each, bottom, begin := uniform(rng, 3, 15)/60, logUniform(rng, .06, .3), uniform(rng, .3, 1.5)
			stays := uniform(rng, .05, .5)
			top := begin + each*math.Log2(1/bottom)
			return shaped(func(hour float64) float64 {
				switch {
				case hour < begin || hour > top+stays:
					return bottom
				case hour > top:
					return 1
				}
				return bottom * math.Exp2((hour-begin)/each)
			}), nil
		}},
	},
	"test": {
		{"ramp", func(rng *rand.Rand) (loadsim.Load, error) {
			return family(rng, "ramp", map[string]float64{
				"low": uniform(rng, .1, .5), "high": 1, "at": uniform(rng, .4, 1.5), "length": uniform(rng, .1, 1.5), "noise": uniform(rng, 0, .15),
			})
		}},
		{"flash-crowd", func(rng *rand.Rand) (loadsim.Load, error) {
			return family(rng, "flash-crowd", map[string]float64{
				"low": uniform(rng, .1, .5), "high": 1, "at": uniform(rng, .6, 2), "rise": uniform(rng, .01, .1),
				"length": uniform(rng, .1, .5), "fall": uniform(rng, .1, .6), "noise": uniform(rng, 0, .1),
			})
		}},
		{"regime-change", func(rng *rand.Rand) (loadsim.Load, error) {
			return family(rng, "regime-change", map[string]float64{
				"low": uniform(rng, .1, .4), "high": 1, "length": uniform(rng, .2, 1), "noise": uniform(rng, 0, .15),
			})
		}},
		{"pulses", func(rng *rand.Rand) (loadsim.Load, error) {
			every, most := uniform(rng, 15, 60)/60, uniform(rng, 1.7, 7)
			length, first := uniform(rng, 1, 7)/60, uniform(rng, .2, 1)
			return shaped(func(hour float64) float64 {
				if hour >= first && math.Mod(hour-first, every) < length {
					return most
				}
				return 1
			}), nil
		}},
		{"walk", func(rng *rand.Rand) (loadsim.Load, error) {
			sigma := uniform(rng, .03, .15) / math.Sqrt(6) // a minute has six steps
			const kept = .995
			x := 0.0
			return shaped(func(float64) float64 {
				x = math.Pow(kept, 1./6)*x + sigma*rng.NormFloat64()
				return math.Exp(x)
			}), nil
		}},
	},
}

// family makes a synthetic load.
func family(rng *rand.Rand, name string, set map[string]float64) (loadsim.Load, error) {
	text := map[string]string{}
	for k, v := range set {
		text[k] = fmt.Sprintf("%g", v)
	}
	return loadsim.Synthetic(name, text, generatedHours, rng.Uint64())
}

// shaped makes a load in steps of ten seconds; rate is called in order of time.
func shaped(rate func(hour float64) float64) loadsim.Load {
	l := loadsim.Load{Step: 10}
	for i := range generatedHours * 360 {
		l.PerSec = append(l.PerSec, rate(float64(i)/360))
	}
	return l
}
