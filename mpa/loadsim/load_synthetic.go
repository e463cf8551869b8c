package loadsim

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// A Family is a kind of synthetic load.
type Family struct {
	Name   string
	Help   string // one line
	Params []Param
	// make returns the rate without noise, by hour.
	make func(p map[string]float64, hours float64, rng *rand.Rand) func(hour float64) float64
}

// A Param is a parameter of a [Family]. Rates are in requests per
// second, times in hours.
type Param struct {
	Name              string
	Default, Min, Max float64
	// Share: the default is a share of the length.
	Share bool
	Help  string // one line
}

const (
	syntheticStep = 10       // seconds
	noiseMemory   = 10. / 60 // hours in which the noise decays to 1/e
	mostRate      = 1e6
	mostHours     = 24 * 366
)

func low(v float64) Param {
	return Param{Name: "low", Default: v, Max: mostRate, Help: "the lowest rate"}
}

func high(v float64) Param {
	return Param{Name: "high", Default: v, Min: .001, Max: mostRate, Help: "the highest rate"}
}

func noise(v float64) Param {
	return Param{Name: "noise", Default: v, Max: 2, Help: "coefficient of variation of a slow, lognormal noise"}
}

var families = []Family{
	{
		"step", "one level, then another",
		[]Param{
			low(50), high(200),
			{Name: "at", Default: 1. / 3, Max: mostHours, Share: true, Help: "when it goes up"},
			{Name: "length", Default: 1. / 3, Max: mostHours, Share: true, Help: "how long it stays there"},
			noise(0),
		},
		func(p map[string]float64, _ float64, _ *rand.Rand) func(float64) float64 {
			return func(h float64) float64 {
				if h >= p["at"] && h < p["at"]+p["length"] {
					return p["high"]
				}
				return p["low"]
			}
		},
	},
	{
		"ramp", "a steady rise, and the level it ends at",
		[]Param{
			low(20), high(200),
			{Name: "at", Default: .2, Max: mostHours, Share: true, Help: "when the rise begins"},
			{Name: "length", Default: .6, Max: mostHours, Share: true, Help: "how long it takes"},
			noise(0),
		},
		func(p map[string]float64, _ float64, _ *rand.Rand) func(float64) float64 {
			return func(h float64) float64 {
				share := 0.0
				if h >= p["at"] {
					share = 1
				}
				if p["length"] > 0 {
					share = min(1, max(0, (h-p["at"])/p["length"]))
				}
				return p["low"] + share*(p["high"]-p["low"])
			}
		},
	},
	{
		// A linear rise, a plateau and a slow decline: Ari et al., "Managing Flash Crowds
		// on the Internet" (2003).
		"flash-crowd", "many come at once and lose interest slowly",
		[]Param{
			low(40), high(400),
			{Name: "at", Default: 1. / 3, Max: mostHours, Share: true, Help: "when they come"},
			{Name: "rise", Default: 1. / 30, Max: mostHours, Help: "how long they take to come"},
			{Name: "length", Default: .25, Max: mostHours, Help: "how long all stay"},
			{Name: "fall", Default: .5, Max: mostHours, Help: "how long it takes half of them to leave"},
			noise(.05),
		},
		func(p map[string]float64, _ float64, _ *rand.Rand) func(float64) float64 {
			return func(h float64) float64 {
				share := 0.0
				switch since := h - p["at"]; {
				case since < 0:
				case since < p["rise"]:
					share = since / p["rise"]
				case since < p["rise"]+p["length"]:
					share = 1
				case p["fall"] > 0:
					share = math.Exp2(-(since - p["rise"] - p["length"]) / p["fall"])
				}
				return p["low"] + share*(p["high"]-p["low"])
			}
		},
	},
	{
		"diurnal", "a wave a day, with noise",
		[]Param{
			low(20), high(200),
			{Name: "period", Default: 24, Min: .1, Max: mostHours, Help: "from wave to wave"},
			{Name: "peak", Default: 14, Max: mostHours, Help: "when the first is highest"},
			noise(.1),
		},
		func(p map[string]float64, _ float64, _ *rand.Rand) func(float64) float64 {
			return func(h float64) float64 {
				return p["low"] + (p["high"]-p["low"])*(1+math.Cos(2*math.Pi*(h-p["peak"])/p["period"]))/2
			}
		},
	},
	{
		"regime-change", "levels that last a while and then change at once",
		[]Param{
			low(20), high(300),
			{Name: "length", Default: 4, Min: .05, Max: mostHours, Help: "how long a level lasts in the mean"},
			noise(.1),
		},
		func(p map[string]float64, hours float64, rng *rand.Rand) func(float64) float64 {
			// Lengths are exponential, levels uniform in their logarithm.
			var ends, levels []float64
			for end := 0.0; end < hours; {
				end += p["length"] * rng.ExpFloat64()
				bottom := max(p["low"], p["high"]/1e6)
				ends, levels = append(ends, end), append(levels, bottom*math.Pow(p["high"]/bottom, rng.Float64()))
			}
			return func(h float64) float64 {
				i, _ := slices.BinarySearch(ends, h)
				return levels[min(i, len(levels)-1)]
			}
		},
	},
}

// Families returns the families of [Synthetic].
func Families() []Family { return slices.Clone(families) }

// Synthetic generates a load of a family, hours long. set overrides parameters by name. The
// same arguments give the same load.
func Synthetic(family string, set map[string]string, hours float64, seed uint64) (Load, error) {
	i := slices.IndexFunc(families, func(f Family) bool { return f.Name == family })
	if i < 0 {
		return Load{}, fmt.Errorf("unknown load %q; there are %s", family, listed(families, func(f Family) string { return f.Name }))
	}
	if !(hours > 0 && hours <= mostHours) {
		return Load{}, fmt.Errorf("load %s: %v hours: want more than 0 and at most %d", family, hours, mostHours)
	}
	f := &families[i]
	p, err := f.parse(set, hours)
	if err != nil {
		return Load{}, err
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	rate := f.make(p, hours, rng)
	load := Load{Step: syntheticStep, PerSec: make([]float64, int(math.Ceil(hours*3600/syntheticStep-1e-9)))}
	// Noise is exp of a stationary process x ← a·x + √(1 − a²)·ε of variance s², with a
	// mean of 1.
	s2 := math.Log(1 + p["noise"]*p["noise"])
	a := math.Exp(-syntheticStep / 3600. / noiseMemory)
	x := rng.NormFloat64()
	for k := range load.PerSec {
		load.PerSec[k] = rate(float64(k)*syntheticStep/3600) * math.Exp(math.Sqrt(s2)*x-s2/2)
		x = a*x + math.Sqrt(1-a*a)*rng.NormFloat64()
	}
	if load.Peak() == 0 {
		return Load{}, fmt.Errorf("load %s: no requests", family)
	}
	return load, nil
}

func (f *Family) parse(set map[string]string, hours float64) (map[string]float64, error) {
	p := map[string]float64{}
	for _, q := range f.Params {
		p[q.Name] = q.Default
		if q.Share {
			p[q.Name] *= hours
		}
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		i := slices.IndexFunc(f.Params, func(q Param) bool { return q.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("load %s: unknown parameter %q; there are %s", f.Name, name, listed(f.Params, func(q Param) string { return q.Name }))
		}
		v, err := strconv.ParseFloat(set[name], 64)
		if err != nil {
			return nil, fmt.Errorf("load %s: %s=%q is not a number", f.Name, name, set[name])
		}
		if q := f.Params[i]; !(v >= q.Min && v <= q.Max) {
			return nil, fmt.Errorf("load %s: %s=%s is not within %v and %v", f.Name, name, set[name], q.Min, q.Max)
		}
		p[name] = v
	}
	if p["high"] < p["low"] {
		return nil, fmt.Errorf("load %s: high=%v is below low=%v", f.Name, p["high"], p["low"])
	}
	return p, nil
}

func listed[T any](list []T, name func(T) string) string {
	var names []string
	for _, v := range list {
		names = append(names, name(v))
	}
	return strings.Join(names, ", ")
}
