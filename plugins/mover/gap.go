package mover

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A gap is a pod that a chain has evicted and of which no replacement is ready yet.
type gap struct {
	pod   *v1.Pod
	of    string             // namespace of the pod that waited
	stood map[types.UID]bool // pods of its workload when it was evicted
	since time.Time
}

// gapOf is the gap that the eviction of a pod would leave.
func (m *Mover) gapOf(pod *v1.Pod) *gap {
	g := &gap{pod: pod, stood: map[types.UID]bool{pod.UID: true}, since: m.now()}
	for _, p := range m.engine.Standing(pod) {
		g.stood[p.UID] = true
	}
	return g
}

// closed reports whether a gap has ended: a replacement is ready, on any node; the eviction did not
// happen; the workload has no pod left, though it had several; or an hour has passed.
func (m *Mover) closed(g *gap) bool {
	since := m.now().Sub(g.since)
	if since >= stillFor {
		return true
	}
	seen := func(p *v1.Pod) *v1.Pod {
		if now := m.cluster.Pod(p.Namespace, p.Name); now != nil && now.UID == p.UID && now.DeletionTimestamp == nil {
			return now
		}
		return nil
	}
	if since > unseen && seen(g.pod) != nil {
		return true
	}
	left := 0
	for _, p := range m.engine.Standing(g.pod) {
		now := seen(p)
		if now == nil {
			continue
		}
		if left++; !g.stood[p.UID] && podspec.Ready(now) {
			return true
		}
	}
	return left == 0 && len(g.stood) > 1
}

// waitOut keeps the gap that a chain has left until it is closed, and has the pods tried for which no
// chain could begin meanwhile.
func (m *Mover) waitOut(c *chain) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for !m.closed(c.gap) {
		select {
		case <-m.ctx.Done():
			return
		case <-tick.C:
		}
	}
	m.mu.Lock()
	delete(m.gaps, c.Pod.UID)
	pods := append(m.away.take(mostAway), c.Pod)
	m.mu.Unlock()
	m.cluster.Activate(pods...)
}

// leavesGap reports whether a chain has left a gap among the pods of a namespace.
func (m *Mover) leavesGap(namespace string) bool {
	for _, g := range m.gaps {
		if g.pod.Namespace == namespace {
			return true
		}
	}
	return false
}
