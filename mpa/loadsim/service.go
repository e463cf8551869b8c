package loadsim

import (
	"cmp"
	"errors"
	"fmt"
)

// A Service describes the requests and how its pods take them.
type Service struct {
	Segments []Segment
	// Workers is the number of requests that a pod works on at once, 0 = any number; Queue
	// the number that waits there, below 0 = any number.
	Workers int
	Queue   int
	// Timeout of a try in seconds, 0 = no timeout; Retries after it.
	Timeout float64
	Retries int
	// Late is the latency in seconds above which an answer counts as late; 0 = no answer
	// does.
	Late float64
	// Balance of requests over pods: "two" (the better of two at random, the default)
	// or "random".
	Balance string
	// Parallelism is the number of cores that a pod can use at once; 0 = 8.
	Parallelism float64
	// Quantum is the time, in seconds, for which a request computes before others have their
	// turn: 10 to 20 ms in a Go program. 0 = the processor is shared evenly at all times.
	Quantum float64
	// Wake is the extra cpu in core-seconds of a request to an idle pod.
	Wake float64
	// Contention κ: each other request inside a pod makes the cpu of a request larger by this
	// share, D (1 + κ (n − 1)).
	Contention float64
	// Front is the number of requests that wait before all pods while no pod has room, first
	// come, first served; pods then have no queues. 0 = there is no such queue.
	Front int
	// Clients send requests in closed loop, in addition to those that arrive at a rate: each
	// sends its next one when Think has passed since its last one ended.
	Clients int
	Think   Dist

	phases []phase
	think  sampler
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

// Prepare checks the segments and makes the service ready for engines. Call it for each
// copy that is simulated in parallel.
func (s *Service) Prepare() error {
	if len(s.Segments) == 0 {
		return errors.New("there are no segments")
	}
	if !(s.Contention >= 0 && s.Contention < 1e6) || s.Front < 0 || s.Clients < 0 {
		return fmt.Errorf("contention %v, front %d, clients %d: want at least 0", s.Contention, s.Front, s.Clients)
	}
	if err := s.Think.validate(); err != nil {
		return fmt.Errorf("think: %w", err)
	}
	s.think = s.Think.sampler()
	s.phases = make([]phase, 0, len(s.Segments))
	for i, g := range s.Segments {
		if err := g.CPU.validate(); err != nil {
			return fmt.Errorf("segments[%d].cpu: %w", i, err)
		}
		if err := g.Wait.validate(); err != nil {
			return fmt.Errorf("segments[%d].wait: %w", i, err)
		}
		s.phases = append(s.phases, phase{g.CPU.sampler(), g.Wait.sampler()})
	}
	return nil
}

// Cores returns how many cores a pod can use at once.
func (s *Service) Cores() float64 { return cmp.Or(s.Parallelism, 8) }

// CPUPerRequest returns the mean demand in core-seconds.
func (s *Service) CPUPerRequest() float64 {
	sum := 0.0
	for _, g := range s.Segments {
		sum += g.CPU.Mean
	}
	return sum
}

// WaitPerRequest returns the mean wait for other services, in seconds.
func (s *Service) WaitPerRequest() float64 {
	sum := 0.0
	for _, g := range s.Segments {
		sum += g.Wait.Mean
	}
	return sum
}

// NewPod makes a pod of the service with a quota in cores, 0 = no quota.
func (s *Service) NewPod(quota float64) Pod {
	return Pod{Cores: s.Cores(), Quota: quota, Workers: s.Workers, Quantum: s.Quantum}
}
