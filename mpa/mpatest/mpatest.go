// Package mpatest has the workload that tests of the autoscaler share.
package mpatest

import (
	"fmt"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
)

// Begin is the begin of tests.
var Begin = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

// Size and Use of a pod.
var (
	Size = mpa.Resources{CPU: 1000, Memory: 1 << 30}
	Use  = mpa.Resources{CPU: 500, Memory: 512 << 20}
)

// Web is the target of a workload of one container, "app".
func Web() mpa.Target {
	return mpa.Target{
		SLO:      mpa.SLO{Percentile: 99, Latency: .2},
		Replicas: mpa.Range{Min: 2, Max: 20},
		Containers: []mpa.ContainerSpec{{
			Name: "app", CPU: true, Memory: true,
			Min: mpa.Resources{CPU: 100, Memory: 64 << 20}, Max: mpa.Resources{CPU: 4000, Memory: 8 << 30},
		}},
	}
}

// Observation has n ready pods of a size and use.
func Observation(now time.Time, n int, size, use mpa.Resources) *mpa.Observation {
	o := &mpa.Observation{Time: now, Replicas: int32(n)}
	for i := range n {
		o.Pods = append(o.Pods, mpa.Pod{
			Name: fmt.Sprintf("web-%d", i), Phase: mpa.Running, Started: Begin.Add(-time.Hour), Ready: true, ReadySince: Begin.Add(-time.Hour),
			Containers: []mpa.Container{{
				Name: "app", Request: size, Actual: size,
				Usage: mpa.Usage{Resources: use, Time: now.Add(-5 * time.Second), Window: 30 * time.Second},
			}},
		})
	}
	return o
}

// An AgentFunc is an agent from a function.
type AgentFunc func(o *mpa.Observation) mpa.Recommendation

// Recommend implements [mpa.Agent].
func (f AgentFunc) Recommend(o *mpa.Observation) mpa.Recommendation { return f(o) }
