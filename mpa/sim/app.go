package sim

import (
	"fmt"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/loadsim"
)

// An App is the workload: what a request does, what a pod needs, and what was promised.
type App struct {
	Name string
	loadsim.Service
	// LimitRatio is limits ÷ requests, of cpu and memory; 0 = 1.
	LimitRatio float64
	Memory     Memory
	// Replicas and Request that the workload begins with.
	Replicas int32
	Request  mpa.Resources
	Target   mpa.Target
}

// Memory of a pod in bytes: what it always has, a cache that fills with the requests
// it has served, and what each of them leaves behind until a restart.
type Memory struct {
	Base            float64
	CachePerRequest float64
	CacheMax        float64
	LeakPerRequest  float64
}

func (a *App) limitRatio() float64 {
	if a.LimitRatio == 0 {
		return 1
	}
	return a.LimitRatio
}

// prepare checks the service, which counts answers above the promised latency as late.
func (a *App) prepare() error {
	a.Late = a.Target.SLO.Latency
	if err := a.Prepare(); err != nil {
		return fmt.Errorf("app %q: %w", a.Name, err)
	}
	return nil
}

// memory of a pod in bytes that has served some requests since it started and has some
// inside.
func (a *App) memory(served, inside float64) float64 {
	each := 0.0
	for _, g := range a.Segments {
		each += g.Memory
	}
	return a.Memory.Base + min(a.Memory.CacheMax, a.Memory.CachePerRequest*served) + a.Memory.LeakPerRequest*served + each*inside
}
