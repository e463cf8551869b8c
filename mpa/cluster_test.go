package mpa_test

import (
	"fmt"
	"math"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
)

// A tape gives the random choices of a scenario, and 0 at its end.
type tape struct{ data []byte }

func (t *tape) upTo(n int) int {
	if len(t.data) == 0 {
		return 0
	}
	b := t.data[0]
	t.data = t.data[1:]
	return int(b) % n
}

// A cluster carries actions out late, in part or not at all. Its observations have values
// that are missing, stale, absurd or of another time.
type cluster struct {
	*tape
	now      time.Time     // for checking the limits
	skew     time.Duration // of the clock in observations
	replicas int
	sizes    []mpa.Resources // of the pods
	made     mpa.Resources   // size of new pods
	leak     int64
}

// observe returns an observation, and why the controller must not act on it, if so.
func (c *cluster) observe() (o *mpa.Observation, forbidden string) {
	switch c.upTo(8) {
	case 0:
	case 1:
		c.now = c.now.Add(5 * time.Minute)
	default:
		c.now = c.now.Add(15 * time.Second)
	}
	for len(c.sizes) < c.replicas {
		c.sizes = append(c.sizes, c.made)
	}
	c.sizes = c.sizes[:c.replicas]
	load := int64(c.upTo(16)) * 500
	c.leak = (c.leak + int64(c.upTo(64))<<20) % (2 << 30)
	fault := c.upTo(40)
	if fault == 1 {
		c.skew += []time.Duration{-5 * time.Minute, time.Hour, -30 * time.Hour, 30 * time.Hour, -11 * time.Second, 400 * 24 * time.Hour}[c.upTo(6)]
	}
	told := c.now.Add(c.skew)
	o = &mpa.Observation{Time: told, Replicas: int32(c.replicas), Rate: mpa.Metric{Value: float64(load) / 10, Time: told}}
	for i, size := range c.sizes {
		use := mpa.Resources{CPU: min(2*size.CPU, load/int64(len(c.sizes))), Memory: min(size.Memory, 100<<20+c.leak)}
		p := mpa.Pod{
			Name: fmt.Sprintf("web-%03d", i), Phase: mpa.Running, Started: told.Add(-time.Hour), Ready: true, ReadySince: told.Add(-time.Hour),
			Containers: []mpa.Container{{Name: "app", Request: size, Actual: size, Usage: mpa.Usage{Resources: use, Time: told.Add(-5 * time.Second), Window: 30 * time.Second}}},
		}
		switch c.upTo(24) {
		case 0:
			p.Resize, p.ResizeSince = []mpa.Resize{mpa.InProgress, mpa.Deferred, mpa.Infeasible}[c.upTo(3)], told.Add(-time.Duration(c.upTo(10))*time.Minute)
		case 1:
			p.Phase, p.Ready, p.Started, p.ReadySince, p.Containers[0].Usage = mpa.Pending, false, time.Time{}, time.Time{}, mpa.Usage{}
		case 2:
			p.Containers[0].Usage = mpa.Usage{}
		case 3:
			p.Containers[0].Killed = told.Add(-time.Duration(c.upTo(10)) * time.Minute)
		case 4:
			p.Containers = append(p.Containers, mpa.Container{Name: "sidecar", Request: mpa.Resources{CPU: 10}, Usage: p.Containers[0].Usage})
		case 5:
			p.Deleting = true
		}
		o.Pods = append(o.Pods, p)
	}
	some := func(change func(k *mpa.Container)) {
		if n := len(o.Pods); n > 0 {
			change(&o.Pods[c.upTo(n)].Containers[0])
		}
	}
	all := func(change func(k *mpa.Container)) {
		for i := range o.Pods {
			change(&o.Pods[i].Containers[0])
			o.Pods[i].Containers = o.Pods[i].Containers[:1]
		}
	}
	switch fault {
	case 2:
		all(func(k *mpa.Container) { k.Usage = mpa.Usage{} })
		forbidden = "no usage"
	case 3:
		all(func(k *mpa.Container) { k.Usage.Time = told.Add(-time.Hour) })
		forbidden = "stale usage"
	case 4:
		all(func(k *mpa.Container) { k.Usage.Time = told.Add(time.Hour) })
		forbidden = "usage of the future"
	case 5:
		o.Pods, forbidden = nil, "no pods"
	case 6:
		some(func(k *mpa.Container) { k.Usage.CPU, forbidden = -1, "negative usage" })
	case 7:
		some(func(k *mpa.Container) { k.Usage.CPU, forbidden = 1e18, "absurd usage" })
	case 8:
		some(func(k *mpa.Container) { k.Usage.Memory, forbidden = math.MaxInt64, "absurd memory" })
	case 9:
		o.Rate.Value, forbidden = []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 1e300}[c.upTo(5)], "a rate that is none"
	case 10:
		o.Latency, forbidden = mpa.Metric{Value: math.NaN(), Time: told}, "a latency that is none"
	case 11:
		if len(o.Pods) > 0 {
			o.Pods, forbidden = append(o.Pods, o.Pods[0]), "a pod twice"
		}
	case 12:
		some(func(k *mpa.Container) { k.Name = "other" })
	case 13:
		o.Replicas, forbidden = 0, "switched off"
	case 14:
		o.Replicas, forbidden = -3, "negative replicas"
	case 15:
		o.Replicas = math.MaxInt32
	case 16:
		o.Rate = mpa.Metric{}
	case 17:
		o.Time, forbidden = time.Time{}, "no time"
	case 18:
		o.Time, forbidden = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), "a time that is none"
	case 19:
		some(func(k *mpa.Container) { k.Request.CPU, forbidden = -5, "negative requests" })
	case 20:
		c.replicas, c.sizes = 0, nil // until its owner switches it on again
		o.Replicas, o.Pods, forbidden = 0, nil, "switched off"
	case 21:
		some(func(k *mpa.Container) { k.Usage.Window, forbidden = -time.Hour, "a window that is none" })
	}
	if o.Replicas == 0 {
		forbidden = "switched off"
	}
	return o, forbidden
}

// do carries an action out, late, in part, or not at all.
func (c *cluster) do(a *mpa.Action) {
	if c.replicas == 0 && c.upTo(4) == 0 {
		c.replicas = 1 + c.upTo(6) // by its owner
	}
	how := c.upTo(6)
	switch {
	case a == nil || how == 0:
	case a.Replicas != 0:
		c.replicas = int(a.Replicas)
	default:
		c.made = a.Containers[0]
		for i := range c.sizes {
			if how > 1 || i%2 == 0 {
				c.sizes[i] = c.made
			}
		}
	}
}

// told returns the recommendation that the test sets.
type told struct{ next mpa.Recommendation }

func (t *told) Recommend(*mpa.Observation) mpa.Recommendation { return t.next }
