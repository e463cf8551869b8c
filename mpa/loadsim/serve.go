package loadsim

import (
	"fmt"
	"math"
)

// A Request has an arrival time, and a wait and a cpu time for each segment, in seconds.
type Request struct {
	At        float64
	Wait, CPU []float64
}

// Serve sends given requests to one pod of a service with a quota in cores, in order of
// time, and returns the latency of each; NaN = never answered. The quota's periods begin
// at phase.
func Serve(s Service, quota float64, requests []Request, phase float64) ([]float64, error) {
	if err := s.Prepare(); err != nil {
		return nil, err
	}
	for i, r := range requests {
		if len(r.Wait) != len(s.Segments) || len(r.CPU) != len(s.Segments) || i > 0 && r.At < requests[i-1].At {
			return nil, fmt.Errorf("requests[%d]: want one wait and cpu for each of %d segments, in order of time", i, len(s.Segments))
		}
	}
	if len(requests) == 0 {
		return nil, nil
	}
	e := New(&s, 0, func(float64) (float64, float64) { return 0, math.Inf(1) })
	e.script, e.took = requests, make([]float64, len(requests))
	for i := range e.took {
		e.took[i] = math.NaN()
	}
	e.arrival = requests[0].At
	p := s.NewPod(quota)
	p.Phase = phase
	e.Open(&p)
	e.Run(requests[len(requests)-1].At + 1e5)
	return e.took, nil
}
