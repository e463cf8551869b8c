package drain

import (
	"context"
	"time"

	"k8s.io/klog/v2"
)

const (
	// recountEvery is the time between two counts of the moves that are written in the workloads, and
	// countTimeout how long one may take.
	recountEvery, countTimeout = time.Minute, 30 * time.Second
)

// evictionCount is the number of moves of the last hour recorded in the workloads, by any scheduler.
type evictionCount struct {
	moves int
	at    time.Time // when they were counted
	next  time.Time // when that is due again
}

// due reports, once, whether it is time to count.
func (w *evictionCount) due(now time.Time) bool {
	if now.Before(w.next) {
		return false
	}
	w.next = now.Add(recountEvery)
	return true
}

// countEvictions counts the moves of the last hour. If that fails, the last count and the own moves are
// used; each eviction checks the limit in any case.
func (m *Chains) countEvictions() {
	ctx, cancel := context.WithTimeout(m.ctx, countTimeout)
	defer cancel()
	at := m.now()
	n, err := m.cluster.Evicted(ctx)
	if err != nil {
		klog.FromContext(m.ctx).Info("The moves of the last hour cannot be counted; it is tried again", "why", err.Error())
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counted.moves, m.counted.at = n, at
}

// recentEvictions is the last count plus the own moves since. An old count is ignored.
func (m *Chains) recentEvictions(now time.Time) int {
	if now.Sub(m.counted.at) > 2*recountEvery {
		return 0
	}
	n := m.counted.moves
	for _, at := range m.evictedAt {
		if !at.Before(m.counted.at) {
			n++
		}
	}
	return n
}
