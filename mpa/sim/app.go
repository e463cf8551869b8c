package sim

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/sigma-scheduler/sigma/mpa"
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

// An App is the workload: what a request does, what a pod needs, and what was promised.
type App struct {
	Name     string
	Segments []Segment
	// Workers is how many requests a pod works on at once, 0 = any number; Queue how
	// many wait there, below 0 = any number.
	Workers int
	Queue   int
	// Timeout of a try in seconds, 0 = none; Retries after it.
	Timeout float64
	Retries int
	// Balance of requests over pods: "two" (the better of two at random, the default)
	// or "random".
	Balance string
	// Parallelism is how many cores a pod can use at once; 0 = 8.
	Parallelism float64
	// Quantum is how long a request computes, in seconds, before others have their turn:
	// 10 to 20 ms in a Go program. 0 = the processor is shared evenly at all times.
	Quantum float64
	// Wake is what a pod computes besides, in core-seconds, when it has been idle.
	Wake float64
	// LimitRatio is limits ÷ requests, of cpu and memory; 0 = 1.
	LimitRatio float64
	Memory     Memory
	// Replicas and Request that the workload begins with.
	Replicas int32
	Request  mpa.Resources
	Target   mpa.Target

	phases []phase
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

func (a *App) parallelism() float64 {
	if a.Parallelism == 0 {
		return 8
	}
	return a.Parallelism
}

// A Segment is a part of a request: it waits, then it computes.
type Segment struct {
	Name string
	// CPU in core-seconds, Wait (for disks, networks and other services) in seconds.
	CPU  Dist
	Wait Dist
	// Memory in bytes while a request is in the pod.
	Memory float64
}

type phase struct{ cpu, wait sampler }

// compile prepares the phases.
func (a *App) compile() error {
	if len(a.Segments) == 0 {
		return fmt.Errorf("app %q has no segments", a.Name)
	}
	a.phases = make([]phase, 0, len(a.Segments)) // copies of the app run at the same time
	for i, s := range a.Segments {
		if err := s.CPU.validate(); err != nil {
			return fmt.Errorf("segments[%d].cpu: %w", i, err)
		}
		if err := s.Wait.validate(); err != nil {
			return fmt.Errorf("segments[%d].wait: %w", i, err)
		}
		a.phases = append(a.phases, phase{s.CPU.sampler(), s.Wait.sampler()})
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

// waitPerRequest is the mean time in seconds that a request waits for others.
func (a *App) waitPerRequest() float64 {
	sum := 0.0
	for _, s := range a.Segments {
		sum += s.Wait.Mean
	}
	return sum
}

// cpuPerRequest is the mean demand in core-seconds.
func (a *App) cpuPerRequest() float64 {
	sum := 0.0
	for _, s := range a.Segments {
		sum += s.CPU.Mean
	}
	return sum
}
