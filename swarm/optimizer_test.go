package swarm

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var landscapes = []struct {
	name   string
	f      func([]float64) float64
	lo, hi float64
	// The level that the median of nine seeds reaches in 10 dimensions and
	// 10,000 evaluations, by optimiser.
	levels map[string]float64
}{
	{"sphere", shifted(sphere), -5, 5, map[string]float64{"pso": 1e-18, "pso-ring": 1e-11, "cmaes": 1e-18}},
	{"rosenbrock", rosenbrock, -2, 3, map[string]float64{"pso": 5, "pso-ring": 7, "cmaes": 1e-10}},
	{"rastrigin", shifted(rastrigin), -5.12, 5.12, map[string]float64{"pso": 15, "pso-ring": 15, "cmaes": 15}},
}

// Known levels at a fixed budget, and random search left behind.
func TestLevels(t *testing.T) {
	median := func(name string, f func([]float64) float64, lo, hi float64) float64 {
		values := make([]float64, 9)
		for i := range values {
			s := Search{Box: Cube(10, lo, hi), Seed: uint64(i + 1)}
			values[i] = minimize(t, name, s, f, Options{Budget: 10000}).Value
		}
		slices.Sort(values)
		return values[4]
	}
	for _, l := range landscapes {
		random := median("random", l.f, l.lo, l.hi)
		for name, level := range l.levels {
			t.Run(l.name+"/"+name, func(t *testing.T) {
				got := median(name, l.f, l.lo, l.hi)
				assert.LessOrEqual(t, got, level)
				assert.Less(t, got, random/4)
			})
		}
	}
}

// An ellipsoid a thousand times longer than thin: after learning its shape,
// CMA-ES falls as fast as on a sphere.
func TestCMAESLearnsTheShape(t *testing.T) {
	ellipsoid := func(x []float64) float64 {
		sum := 0.0
		for d, v := range x {
			sum += math.Pow(10, 6*float64(d)/float64(len(x)-1)) * v * v
		}
		return sum
	}
	for seed := uint64(1); seed <= 3; seed++ {
		r := minimize(t, "cmaes", Search{Box: Cube(10, -5, 4), Seed: seed}, ellipsoid, Options{Budget: 8000})
		assert.Less(t, r.Value, 1e-8)
	}
}

// One update by hand, from a covariance diag(4, 1) and two samples, of which
// one counts: mean, both paths and the covariance of the tutorial's formulas.
func TestCMAESUpdate(t *testing.T) {
	c := newOptimiser(t, "cmaes", Search{Box: Cube(2, 0, 1), Size: 2}).(*CMAES)
	c.covariance.SetSym(0, 0, 4)
	require.False(t, c.degenerate())
	assert.Equal(t, []float64{1, 2}, c.deviations)
	c.samples = [][]float64{{.9, .1}, {.5 + .3*.8, .5 - .3*.2}} // m = (½, ½), σ = .3
	c.update([]int{1, 0})

	y := []float64{.8, -.2}
	assert.InDeltaSlice(t, []float64{.5 + .3*y[0], .5 + .3*y[1]}, c.mean, 1e-12)
	sigma := math.Sqrt(c.cSigma * (2 - c.cSigma)) // μ_eff = 1
	assert.InDeltaSlice(t, []float64{sigma * y[0] / 2, sigma * y[1]}, c.pathSigma, 1e-12)
	pc := math.Sqrt(c.cC * (2 - c.cC))
	assert.InDeltaSlice(t, []float64{pc * y[0], pc * y[1]}, c.pathC, 1e-12)
	keep := 1 - c.c1 - c.cMu
	assert.InDelta(t, keep*4+c.c1*pc*pc*y[0]*y[0]+c.cMu*y[0]*y[0], c.covariance.At(0, 0), 1e-12)
	assert.InDelta(t, (c.c1*pc*pc+c.cMu)*y[0]*y[1], c.covariance.At(0, 1), 1e-12)
	norm := sigma * math.Hypot(y[0]/2, y[1])
	assert.InDelta(t, .3*math.Exp(c.cSigma/c.dSigma*(norm/c.expectedNorm-1)), c.sigma, 1e-12)
}

// Every position asked for is inside the box, in every generation, and PSO's
// velocities stay below the cap.
func TestPositionsStayInside(t *testing.T) {
	box := Box{Lo: []float64{-1, 0, 5, 1e6}, Hi: []float64{1, 1e-3, 5, 2e6}}
	for _, o := range optimisers {
		t.Run(o.name, func(t *testing.T) {
			opt := newOptimiser(t, o.name, Search{Box: box, Seed: 3, Size: 9})
			for range 200 {
				xs := opt.Ask()
				values := make([]float64, len(xs))
				for i, x := range xs {
					require.True(t, box.Contains(x), "%v", x)
					values[i] = -x[0] - x[1]*1e3 + x[3]/1e6 // pulls into a corner
				}
				opt.Tell(values)
				if p, ok := opt.(*PSO); ok {
					for _, v := range p.velocities {
						for d := range v {
							require.LessOrEqual(t, math.Abs(v[d]), p.cap(d))
						}
					}
				}
			}
		})
	}
}

// One step by the formula, worked out beside the code: one particle that was
// drawn, evaluated and moved.
func TestVelocityFormula(t *testing.T) {
	box := Cube(1, 0, 10)
	settings := PSOSettings{Inertia: .5, Cognitive: 1, Social: 2, MaxVelocity: 1, Topology: Global}
	p, err := NewPSO(Search{Box: box, Seed: 4, Size: 2, Start: [][]float64{{4}, {6}}}, settings)
	require.NoError(t, err)
	streams := (&Search{Seed: 4, Size: 2}).streams()
	v := make([]float64, 2)
	for i, rng := range streams {
		rng.Float64() // the position, which the start replaces
		v[i] = (2*rng.Float64() - 1) * 10
	}
	assert.Equal(t, v[0], p.velocities[0][0])

	p.velocities[0][0], p.velocities[1][0] = .25, .5
	p.Ask()
	p.Tell([]float64{2, 1}) // particle 1 leads
	p.Ask()
	streams[0].Float64() // ξ1 pulls to where the particle is: nothing
	want0 := .5*.25 + 2*streams[0].Float64()*(6-4)
	assert.InDelta(t, want0, p.velocities[0][0], 1e-15)
	assert.InDelta(t, 4+want0, p.positions[0][0], 1e-15)
	assert.Equal(t, .25, p.velocities[1][0]) // at both bests: inertia alone
	assert.Equal(t, 6.25, p.positions[1][0])
}

// Without a finite best nothing pulls: a particle coasts on its inertia. The
// same holds again when a renewed objective has no finite value.
func TestNoPullWithoutABest(t *testing.T) {
	p, err := NewPSO(Search{Box: Cube(1, 100, 200), Size: 2, Start: [][]float64{{150}, {160}}}, DefaultPSO())
	require.NoError(t, err)
	p.velocities[0][0], p.velocities[1][0] = 1, -1
	nan := math.NaN()
	for range 2 {
		p.Ask()
		p.Tell([]float64{nan, nan})
	}
	assert.Equal(t, []float64{DefaultInertia}, p.velocities[0])
	assert.Equal(t, []float64{150 + DefaultInertia}, p.positions[0])

	p.Ask()
	p.Tell([]float64{1, 2})
	p.Renew()
	assert.Len(t, p.Ask(), 4)
	p.Tell([]float64{nan, nan, nan, nan})
	best, value := p.Best()
	assert.Nil(t, best)
	assert.Equal(t, math.Inf(1), value)
	before := p.velocities[0][0]
	p.Ask()
	assert.Equal(t, DefaultInertia*before, p.velocities[0][0])
}

func TestRingLooksAtNeighbours(t *testing.T) {
	settings := DefaultPSO()
	settings.Topology = Ring
	p, err := NewPSO(Search{Box: Cube(1, 0, 1), Size: 6}, settings)
	require.NoError(t, err)
	p.Ask()
	p.Tell([]float64{5, 4, 3, 2, 1, 5})
	leaders := make([]int, 6)
	for i := range leaders {
		leaders[i] = p.leader(i)
	}
	// Particles 0 and 5 are neighbours; equals keep to themselves.
	assert.Equal(t, []int{1, 2, 3, 4, 4, 4}, leaders)
	assert.Equal(t, 4, p.globalBest())
}

func TestStartingPositions(t *testing.T) {
	start := [][]float64{{1, 2}, {-3, 4}}
	for _, o := range optimisers {
		opt := newOptimiser(t, o.name, Search{Box: Cube(2, -5, 5), Start: start})
		xs := opt.Ask()
		require.Len(t, xs, DefaultParticles)
		assert.Equal(t, start, xs[:2], o.name)
		assert.NotEqual(t, start[0], xs[2], o.name)
	}
}

func TestWrongSearch(t *testing.T) {
	box := Cube(2, 0, 1)
	for _, c := range []struct {
		search Search
		want   string
	}{
		{Search{Box: box, Size: -1}, "a generation of -1"},
		{Search{Box: box, Start: [][]float64{{0}}}, "starting position 0 has 1 dimensions, the box 2"},
		{Search{Box: box, Start: [][]float64{{0, 0}, {0, 2}}}, "starting position 1 is outside"},
		{Search{Box: box, Start: [][]float64{{0, math.NaN()}}}, "starting position 0 is outside"},
		{Search{Box: box, Size: 2, Start: [][]float64{{0, 0}, {0, 0}, {0, 0}}}, "3 starting positions"},
	} {
		for _, o := range optimisers {
			_, err := o.make(c.search)
			require.ErrorContains(t, err, c.want, o.name)
		}
	}
	_, err := NewCMAES(Search{Box: box, Size: 1})
	require.ErrorContains(t, err, "at least 2")

	for name, change := range map[string]func(*PSOSettings){
		"inertia":      func(p *PSOSettings) { p.Inertia = math.NaN() },
		"cognitive":    func(p *PSOSettings) { p.Cognitive = -1 },
		"social":       func(p *PSOSettings) { p.Social = math.Inf(1) },
		"max velocity": func(p *PSOSettings) { p.MaxVelocity = 0 },
		"no topology":  func(p *PSOSettings) { p.Topology = "star" },
	} {
		settings := DefaultPSO()
		change(&settings)
		_, err := NewPSO(Search{Box: box}, settings)
		require.ErrorContains(t, err, name)
	}
}

// A dimension with lo = hi stays where it is and disturbs no other.
func TestFixedDimensions(t *testing.T) {
	box := Box{Lo: []float64{-5, 3, -5}, Hi: []float64{5, 3, 5}}
	for _, name := range []string{"pso", "pso-ring", "cmaes"} {
		r := minimize(t, name, Search{Box: box, Seed: 1}, sphere, Options{Budget: 3000})
		assert.Equal(t, 3.0, r.Position[1])
		assert.InDelta(t, 9, r.Value, 1e-3, name)
	}
	for _, o := range optimisers { // nothing to search at all
		r := minimize(t, o.name, Search{Box: Cube(2, 1, 1), Seed: 1}, sphere, Options{Budget: 50})
		assert.Equal(t, []float64{1, 1}, r.Position)
		assert.Equal(t, 2.0, r.Value)
	}
}

// The smallest swarms and generations work.
func TestSmallSizes(t *testing.T) {
	for _, o := range optimisers {
		for size := 1; size <= 4; size++ {
			if o.name == "cmaes" && size == 1 {
				continue
			}
			t.Run(fmt.Sprintf("%s/size=%d", o.name, size), func(t *testing.T) {
				r := minimize(t, o.name, Search{Box: Cube(1, -1, 1), Seed: 1, Size: size}, sphere, Options{Budget: 101})
				assert.Equal(t, 101, r.Evaluations)
				assert.True(t, finite(r.Value))
			})
		}
	}
}

// When the distribution has shrunk to a point, CMA-ES begins again and finds a
// better valley than its first.
func TestCMAESRestarts(t *testing.T) {
	opt := newOptimiser(t, "cmaes", Search{Box: Cube(2, -5.12, 5.12), Seed: 5, Size: 6}).(*CMAES)
	restarts, last := 0, 0
	for range 2000 {
		xs := opt.Ask()
		values := make([]float64, len(xs))
		for i, x := range xs {
			values[i] = shifted(rastrigin)(x)
		}
		opt.Tell(values)
		if opt.generation < last {
			restarts++
		}
		last = opt.generation
	}
	_, value := opt.Best()
	assert.Greater(t, restarts, 3)
	assert.Less(t, value, 1e-9)
}

func TestTellTooMany(t *testing.T) {
	for _, o := range optimisers {
		opt := newOptimiser(t, o.name, Search{Box: Cube(1, 0, 1), Size: 3})
		opt.Ask()
		assert.Panics(t, func() { opt.Tell(make([]float64, 4)) }, o.name)
	}
}

// TestReach: a search that begins near a position stays there at first.
func TestReach(t *testing.T) {
	for _, name := range []string{"pso", "cmaes"} {
		opt := newOptimiser(t, name, Search{Box: Cube(3, -10, 10), Start: [][]float64{{5, 0, -9.9}}, Reach: .01})
		mean := make([]float64, 3)
		positions := opt.Ask()
		for _, x := range positions {
			for d := range x {
				require.InDelta(t, []float64{5, 0, -9.9}[d], x[d], 1, name)
				mean[d] += x[d] / float64(len(positions))
			}
		}
		require.NotEqual(t, []float64{5, 0, -9.9}, mean)
	}
	opt := newOptimiser(t, "pso", Search{Box: Cube(1, 0, 4), Reach: .1})
	for _, x := range opt.Ask() {
		require.InDelta(t, 2, x[0], .4)
	}
	_, err := NewPSO(Search{Box: Cube(1, 0, 1), Reach: 1.5}, DefaultPSO())
	require.ErrorContains(t, err, "reach 1.5")
}
