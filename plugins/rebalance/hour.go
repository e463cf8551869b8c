package rebalance

import (
	"context"
	"fmt"
	"time"
)

// countEvery is the time between two counts of the evictions of the last hour.
const countEvery = 15 * time.Second

// affords returns why a unit cannot begin yet. A unit that can never begin is given up. The
// number of evictions is that recorded in the workloads, which includes those of earlier
// leaders, or this scheduler's own if larger: a record is deleted with its workload.
func (c *controller) affords(ctx context.Context, w *work, u *unit, now time.Time) string {
	most := int(w.object.Spec.MovesPerHour)
	if len(u.moves) > most {
		u.end(fmt.Sprintf("it takes %d moves, and movesPerHour is %d", len(u.moves), most), false)
		return ""
	}
	seen := map[*item]bool{}
	for _, m := range u.moves {
		if seen[m.item] {
			u.end("a pod would move twice: "+nameOf(m.item.pod), false)
			return ""
		}
		seen[m.item] = true
	}
	if since := now.Sub(w.counted); since >= 0 && since < countEvery {
		return w.waits
	}
	w.counted = now
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	written, err := c.Site.Evicted(ctx, w.name)
	if err != nil {
		return "the evictions of the last hour cannot be counted: " + err.Error()
	}
	if left := most - max(written, c.own(w.name, now)); len(u.moves) > left {
		return fmt.Sprintf("node %s takes %d moves, and movesPerHour leaves %d", u.node, len(u.moves), max(0, left))
	}
	return ""
}

// own is how many pods this scheduler has evicted for a Rebalance within the last hour.
func (c *controller) own(name string, now time.Time) int {
	recent := c.moved[name][:0]
	for _, at := range c.moved[name] {
		if at.After(now) { // the clock was set back
			at = now
		}
		if now.Sub(at) < time.Hour {
			recent = append(recent, at)
		}
	}
	c.moved[name] = recent
	return len(recent)
}
