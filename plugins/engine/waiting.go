package engine

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// Of some pods no deletion is ever told: it was told before we were asked, or a caller of the
// extender made them up. So a pod that waits is forgotten when nobody has asked about it
// for long, or when too many wait. One that is asked about again arrives again.
const (
	sweepEvery = time.Minute
	waitsFor   = time.Hour
	maxWaiting = 10_000
	// maxGraves bounds the deleted pods that are remembered, twice.
	maxGraves = 1 << 14
)

// graves remember the pods that were deleted in the last minute or two.
type graves struct {
	young, old map[types.UID]bool
	at         time.Time // when young began
}

func (g *graves) add(uid types.UID, now time.Time) {
	if g.young == nil || len(g.young) >= maxGraves || now.Sub(g.at) >= time.Minute {
		g.young, g.old, g.at = map[types.UID]bool{}, g.young, now
	}
	g.young[uid] = true
}

func (g *graves) has(uid types.UID) bool { return g.young[uid] || g.old[uid] }

// sweep forgets what nobody asks about any more.
func (e *Engine) sweep() {
	now, s := e.opt.Now(), e.state
	since := now.Sub(e.sweptAt)
	if e.sweptAt.IsZero() {
		e.sweptAt, since = now, 0
	}
	tooMany := s.ledger.Waiting() > maxWaiting
	if !tooMany && since < sweepEvery {
		return
	}
	e.forgetPods(now)
	if since < sweepEvery {
		return
	}
	e.sweptAt = now
	if s.forecastAt.IsZero() || now.Sub(s.forecastAt) >= sweepEvery { // else the forecast sweeps
		s.cluster.Sweep(since)
	}
}

// forgetPods forgets the pods that wait too long, and of too many those that were asked
// about first.
func (e *Engine) forgetPods(now time.Time) {
	var list []*ledger.Pod
	for p := range e.state.ledger.Pods() {
		if p.Node() == nil {
			if p.Asked.IsZero() {
				p.Asked = now
			}
			list = append(list, p)
		}
	}
	excess := 0
	if len(list) > maxWaiting {
		excess = len(list) - maxWaiting*7/8
		klog.InfoS("Too many pods wait; the oldest are forgotten until they are asked about again",
			"profile", e.opt.Profile, "waiting", len(list), "forgotten", excess)
	}
	slices.SortFunc(list, func(a, b *ledger.Pod) int {
		return cmp.Or(a.Asked.Compare(b.Asked), cmp.Compare(a.UID(), b.UID()))
	})
	for i, p := range list {
		reason := "age"
		switch {
		case i < excess:
			reason = "number"
		case now.Sub(p.Asked) < waitsFor:
			return
		}
		e.metrics.forgotten.WithLabelValues(reason).Inc()
		e.inbox.untrack(types.UID(p.UID()))
		e.state.cluster.Forget(p)
	}
}
