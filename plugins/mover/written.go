package mover

import (
	"context"
	"time"

	"k8s.io/klog/v2"
)

const (
	// countEvery is the time between two counts of the moves that are written in the workloads, and
	// countFor how long one may take.
	countEvery, countFor = time.Minute, 30 * time.Second
)

// written is the number of moves of the last hour recorded in the workloads, by any scheduler.
type written struct {
	moves int
	at    time.Time // when they were counted
	next  time.Time // when that is due again
}

// due reports, once, whether it is time to count.
func (w *written) due(now time.Time) bool {
	if now.Before(w.next) {
		return false
	}
	w.next = now.Add(countEvery)
	return true
}

// count counts the moves of the last hour. If that fails, the last count and the own moves are
// used; each eviction checks the limit in any case.
func (m *Mover) count() {
	ctx, cancel := context.WithTimeout(m.ctx, countFor)
	defer cancel()
	at := m.now()
	n, err := m.cluster.Evicted(ctx)
	if err != nil {
		klog.FromContext(m.ctx).Info("The moves of the last hour cannot be counted; it is tried again", "why", err.Error())
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.written.moves, m.written.at = n, at
}

// counted is the last count plus the own moves since. An old count is ignored.
func (m *Mover) counted(now time.Time) int {
	if now.Sub(m.written.at) > 2*countEvery {
		return 0
	}
	n := m.written.moves
	for _, at := range m.moved {
		if !at.Before(m.written.at) {
			n++
		}
	}
	return n
}
