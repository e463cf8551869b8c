package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/loadsim"
)

// FirstTestSeed is the first seed of generated scenarios that judge agents. A generator of
// the train side refuses it and all above, one of the test side all below.
const FirstTestSeed = 900_000

const (
	generatedHours, generatedWarmup = 3, .5
	generatedTries                  = 100
	unloadedRequests                = 4000 // from which the promised latency is drawn
	// The generator's streams of random numbers, apart from those of the simulation.
	generatorStream = 0x6e6
)

// A Generator makes random applications under random loads. Profiles, traces and families
// are those of its side of the split.
type Generator struct {
	side     string
	profiles []string
	loads    []generatedLoad
}

// A generatedLoad makes the shape of a load; its scale does not matter.
type generatedLoad struct {
	name string
	make func(rng *rand.Rand) (loadsim.Load, error)
}

// NewGenerator returns the generator of a side, "train" or "test". It reads the side's
// traces from a folder; without a folder loads are synthetic.
func NewGenerator(side, folder string) (*Generator, error) {
	s, ok := split[side]
	if !ok {
		return nil, fmt.Errorf("unknown side %q: there are train, test", side)
	}
	g := &Generator{side: side, loads: generatedFamilies[side]}
	for _, a := range s.apps {
		g.profiles = append(g.profiles, a.segments...)
	}
	if folder == "" {
		return g, nil
	}
	for _, name := range sortedKeys(s.loads) {
		l := s.loads[name]
		if l.file == "" {
			continue
		}
		l.hours, l.skip = 24*366, 0 // all of it
		path := filepath.Join(folder, l.file)
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("trace %s: %w", name, err)
		}
		whole, err := l.load(path)
		if err != nil {
			return nil, err
		}
		g.loads = append(slices.Clip(g.loads), generatedLoad{name, pieceOf(whole)})
	}
	return g, nil
}

func sortedKeys(m map[string]splitLoad) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// pieceOf returns a function that cuts a random piece out of a trace.
func pieceOf(whole loadsim.Load) func(rng *rand.Rand) (loadsim.Load, error) {
	return func(rng *rand.Rand) (loadsim.Load, error) {
		n := int(math.Ceil(generatedHours * 3600 / whole.Step))
		begin := rng.IntN(len(whole.PerSec))
		piece := loadsim.Load{Step: whole.Step}
		for i := range n {
			at := (begin + i) % len(whole.PerSec)
			piece.PerSec = append(piece.PerSec, whole.PerSec[at])
			if whole.Burst != nil {
				piece.Burst = append(piece.Burst, whole.Burst[at])
			}
		}
		return piece, nil
	}
}

// Generate returns the scenario of a seed. It refuses seeds of the other side. An
// application whose first pod fits no node costs 0 and keeps no promise, for every
// agent: it is drawn again.
func (g *Generator) Generate(seed uint64) (Scenario, error) {
	if test := seed >= FirstTestSeed; test != (g.side == "test") {
		return Scenario{}, fmt.Errorf("seed %d is not of the %s side: test seeds begin at %d", seed, g.side, FirstTestSeed)
	}
	rng := rand.New(rand.NewPCG(seed, generatorStream))
	for range generatedTries {
		l := g.loads[rng.IntN(len(g.loads))]
		load, err := l.make(rng)
		if err != nil {
			return Scenario{}, fmt.Errorf("load %s: %w", l.name, err)
		}
		peak := logUniform(rng, 15, 40)
		app, err := g.app(rng, fmt.Sprintf("generated-%d", seed), peak)
		if err != nil {
			return Scenario{}, err
		}
		if load.Peak() > 0 && fits(&app, DefaultSite().Nodes) {
			return Scenario{App: app, Name: l.name, Load: load.Scale(peak), Hours: generatedHours, Warmup: generatedWarmup}, nil
		}
	}
	return Scenario{}, fmt.Errorf("seed %d: none of %d applications fits a node", seed, generatedTries)
}

// fits reports whether the first pods have room within their bounds and on the nodes.
func fits(app *App, nodes []mpa.Resources) bool {
	bounds := app.Target.Containers[0]
	if bounds.Clamp(app.Request) != app.Request {
		return false
	}
	left := int(app.Replicas)
	for _, n := range nodes {
		left -= int(min(n.CPU/app.Request.CPU, n.Memory/app.Request.Memory))
	}
	return left <= 0
}

// app draws an application for a peak in requests per second.
func (g *Generator) app(rng *rand.Rand, name string, peak float64) (App, error) {
	a := splitApp{name: name, replicas: 2, percentile: []float64{99, 99, 95}[rng.IntN(3)]}
	for _, i := range rng.Perm(len(g.profiles))[:1+rng.IntN(3)] {
		a.segments = append(a.segments, g.profiles[i])
	}
	app, err := a.app()
	if err != nil {
		return App{}, err
	}
	// Demands give the cores of the peak; waits grow with them, at most eightfold.
	cores := logUniform(rng, .5, 4)
	factor := cores / peak / app.CPUPerRequest()
	each := 0.0
	for i := range app.Segments {
		s := &app.Segments[i]
		s.CPU.Mean *= factor
		s.Wait.Mean *= min(factor, 8)
		each += s.Memory
	}
	pods := 2 + 3*rng.Float64()
	app.Request.CPU = 50 * int64(math.Ceil(1000*cores/pods/.55/50))
	app.Replicas = max(2, int32(math.Ceil(pods*uniform(rng, .5, 1))))
	// Workers are never the bottleneck of all agents: twice the requests of the peak.
	inside := peak * (app.CPUPerRequest() + app.WaitPerRequest()) / pods
	app.Workers = max([]int{8, 12, 16, 24, 32, 48, 64}[rng.IntN(7)], int(math.Ceil(2*inside)))
	app.Target.SLO.Latency = uniform(rng, 1.4, 3) * unloaded(rng, &app)
	app.Timeout = 5 * app.Target.SLO.Latency
	app.Memory = Memory{Base: uniform(rng, 80, 400) * (1 << 20)}
	served := peak * generatedHours * 3600 / pods
	if rng.IntN(2) == 0 {
		app.Memory.CacheMax = uniform(rng, 50, 400) * (1 << 20)
		app.Memory.CachePerRequest = app.Memory.CacheMax / served / uniform(rng, .1, .8)
	}
	if rng.IntN(4) == 0 {
		app.Memory.LeakPerRequest = uniform(rng, .05, .5) * app.Memory.Base / served
	}
	full := app.memory(served, float64(app.Workers))
	app.Request.Memory = int64(math.Ceil(uniform(rng, 1.1, 3)*full/(16<<20))) * (16 << 20)
	return app, app.prepare()
}

// unloaded returns the promised percentile of latency of single requests at the start size,
// in seconds.
func unloaded(rng *rand.Rand, app *App) float64 {
	stretch := max(1, 1000/float64(app.Request.CPU))
	list := make([]float64, unloadedRequests)
	for i := range list {
		for _, s := range app.Segments {
			list[i] += s.Wait.Draw(rng) + stretch*s.CPU.Draw(rng)
		}
	}
	slices.Sort(list)
	return list[int(app.Target.SLO.Percentile/100*unloadedRequests)]
}

func uniform(rng *rand.Rand, low, high float64) float64 { return low + (high-low)*rng.Float64() }

func logUniform(rng *rand.Rand, low, high float64) float64 {
	return low * math.Pow(high/low, rng.Float64())
}
