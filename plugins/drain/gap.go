package drain

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A gap is a pod that a chain has evicted and of which no replacement is ready yet.
type gap struct {
	pod    *v1.Pod
	of     string             // namespace of the pod that waited
	before map[types.UID]bool // pods of its workload when it was evicted
	since  time.Time
}

// gapOf is the gap that the eviction of a pod would leave.
func (m *Chains) gapOf(pod *v1.Pod) *gap {
	g := &gap{pod: pod, before: map[types.UID]bool{pod.UID: true}, since: m.now()}
	for _, p := range m.engine.PlacedPods(pod) {
		g.before[p.UID] = true
	}
	return g
}

// closed reports whether a gap has ended: a replacement is ready, on any node; the eviction did not
// happen; the workload has no pod left, though it had several; or an hour has passed.
func (m *Chains) closed(g *gap) bool {
	since := m.now().Sub(g.since)
	if since >= workloadPause {
		return true
	}
	seen := func(p *v1.Pod) *v1.Pod {
		if now := m.cluster.Pod(p.Namespace, p.Name); now != nil && now.UID == p.UID && now.DeletionTimestamp == nil {
			return now
		}
		return nil
	}
	if since > lostAnswerTimeout && seen(g.pod) != nil {
		return true
	}
	left := 0
	for _, p := range m.engine.PlacedPods(g.pod) {
		now := seen(p)
		if now == nil {
			continue
		}
		if left++; !g.before[p.UID] && podspec.Ready(now) {
			return true
		}
	}
	return left == 0 && len(g.before) > 1
}

// awaitGap keeps the gap that a chain has left until it is closed, and has the pods tried for which no
// chain could begin meanwhile.
func (m *Chains) awaitGap(c *chain) {
	tick := time.NewTicker(stepEvery)
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
	pods := append(m.waiting.take(maxWaiting), c.Pod)
	m.mu.Unlock()
	m.cluster.Activate(pods...)
}

// hasGap reports whether a chain has left a gap among the pods of a namespace.
func (m *Chains) hasGap(namespace string) bool {
	for _, g := range m.gaps {
		if g.pod.Namespace == namespace {
			return true
		}
	}
	return false
}
