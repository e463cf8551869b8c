package sim

import (
	"cmp"
	"fmt"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/loadsim"
)

// An App is the workload: its requests, its pods, and its promise.
type App struct {
	Name string
	loadsim.Service
	// LimitRatio is limits ÷ requests, of cpu and memory; 0 = 1.
	LimitRatio float64
	Memory     Memory
	// Replicas and Request at the start.
	Replicas int32
	Request  mpa.Resources
	Target   mpa.Target
}

// Memory of a pod in bytes: a constant base, a cache that fills with served requests, and
// a leak by each of them until a restart.
type Memory struct {
	Base            float64
	CachePerRequest float64
	CacheMax        float64
	LeakPerRequest  float64
	// Collector: a runtime keeps garbage while there is room, and collects it harder as its
	// live memory nears the limit.
	Collector bool
}

// Measured on a Go program whose GOMEMLIMIT was .79 of its memory limit: garbage is kept up
// to that, and a request took 1.5 ms of cpu far from the limit and 3.8 ms near it.
const (
	collectorTarget  = .79
	collectorGarbage = .4 // of the live memory, while there is room
	collectorFrom    = .6 // of the limit, from which on collecting costs
	collectorSpan    = .3
	collectorCosts   = 1.5 // times the cpu of a request, more
)

// shown returns the bytes in use of which some have to be kept.
func (m *Memory) shown(kept, limit float64) float64 {
	if !m.Collector {
		return kept
	}
	return max(kept, min(collectorTarget*limit, (1+collectorGarbage)*kept))
}

// collecting returns the factor of the cpu of requests.
func (m *Memory) collecting(kept, limit float64) float64 {
	if !m.Collector {
		return 1
	}
	return 1 + collectorCosts*max(0, min(1, (kept/limit-collectorFrom)/collectorSpan))
}

func (a *App) limitRatio() float64 { return cmp.Or(a.LimitRatio, 1) }

// prepare checks the service, which counts answers above the promised latency as late.
func (a *App) prepare() error {
	a.Late = a.Target.SLO.Latency
	if err := a.Prepare(); err != nil {
		return fmt.Errorf("app %q: %w", a.Name, err)
	}
	return nil
}

// memory returns the bytes of a pod that has served some requests since its start and works
// on some.
func (a *App) memory(served, inside float64) float64 {
	each := 0.0
	for _, g := range a.Segments {
		each += g.Memory
	}
	return a.Memory.Base + min(a.Memory.CacheMax, a.Memory.CachePerRequest*served) + a.Memory.LeakPerRequest*served + each*inside
}
