package drain

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// countEvery is the time between two counts of the evictions of the last hour.
const countEvery = 15 * time.Second

const (
	defaultPerHour = 5 // percent
	leastPerHour   = 20
)

// withinHourlyBudget returns why a drain cannot begin yet. A drain that can never begin is given up. The
// number of evictions is that recorded in the workloads, which includes those of earlier
// leaders, or this scheduler's own if larger: a record is deleted with its workload.
func (c *controller) withinHourlyBudget(ctx context.Context, x *execution, d *drain, now time.Time) string {
	most := c.perHour(x.object)
	if len(d.moves) > most {
		d.giveUp(fmt.Sprintf("it takes %d moves, and movesPerHour is %d", len(d.moves), most), stopped)
		return ""
	}
	seen := map[*movedPod]bool{}
	for _, m := range d.moves {
		if seen[m.moved] {
			d.giveUp("a pod would move twice: "+nameOf(m.moved.pod), stopped)
			return ""
		}
		seen[m.moved] = true
	}
	if since := now.Sub(x.countedAt); since >= 0 && since < countEvery {
		return x.waiting
	}
	x.countedAt = now
	left, err := c.hourlyLeft(ctx, x.name, most, now)
	if err != nil {
		return "the evictions of the last hour cannot be counted: " + err.Error()
	}
	if len(d.moves) > left {
		return fmt.Sprintf("node %s takes %d moves, and movesPerHour leaves %d", d.node, len(d.moves), left)
	}
	var pods []*v1.Pod
	for _, m := range d.moves {
		pods = append(pods, m.moved.pod)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := c.Site.Full(ctx, pods); err != nil {
		return fmt.Sprintf("node %s takes %d moves: %v", d.node, len(d.moves), err)
	}
	return ""
}

// perHour is the most evictions of a Rebalance within an hour: defaultPerHour of the pods on its nodes, and at least
// leastPerHour, where the object has no number.
func (c *controller) perHour(o *v1alpha1.Rebalance) int {
	if o.Spec.MovesPerHour > 0 {
		return int(o.Spec.MovesPerHour)
	}
	selector, own := labels.SelectorFromSet(o.Spec.NodeSelector), map[string]bool{}
	for _, n := range c.Site.Nodes() {
		own[n.Name] = selector.Matches(labels.Set(n.Labels))
	}
	on := 0
	for _, p := range c.Site.Pods() {
		if own[p.Spec.NodeName] && !podspec.Ended(p) {
			on++
		}
	}
	return max(leastPerHour, on*defaultPerHour/100)
}

// hourlyLeft is how many of the evictions that a Rebalance may make within an hour are left.
func (c *controller) hourlyLeft(ctx context.Context, name string, most int, now time.Time) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	written, err := c.Site.Evicted(ctx, name)
	return max(0, most-max(written, c.evictedWithinHour(name, now))), err
}

// evictedWithinHour is how many pods this scheduler has evicted for a Rebalance within the last hour.
func (c *controller) evictedWithinHour(name string, now time.Time) int {
	recent := c.evictedAt[name][:0]
	for _, at := range c.evictedAt[name] {
		if at.After(now) { // the clock was set back
			at = now
		}
		if now.Sub(at) < time.Hour {
			recent = append(recent, at)
		}
	}
	c.evictedAt[name] = recent
	return len(recent)
}
