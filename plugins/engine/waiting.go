package engine

import (
	"cmp"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// The deletion of some pods is never reported: it was reported before a decision was requested, or a
// caller of the extender invented them. So a waiting pod is forgotten when no decision on it has been
// requested for long, or when too many wait. When one is requested again, the pod arrives again.
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

// sweep drops pods and apps that are no longer queried.
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
		s.cluster.DropIdleApps(since)
	}
}

// forgetPods drops the pods that wait too long, and of too many those that were queried first: in each namespace
// those beyond an equal share.
func (e *Engine) forgetPods(now time.Time) {
	var list []*ledger.Pod
	waits := map[string]int{} // by namespace
	for p := range e.state.ledger.Pods() {
		if p.Node() == nil {
			if p.RankedAt.IsZero() {
				p.RankedAt = now
			}
			list = append(list, p)
			waits[namespaceOfPod(p)]++
		}
	}
	keep := maxWaiting
	if len(list) > maxWaiting {
		keep = mostOfEach(waits, maxWaiting*7/8)
		klog.InfoS("Too many pods wait; the oldest are forgotten until they are asked about again",
			"profile", e.opt.Profile, "waiting", len(list), "keptOfANamespace", keep)
	}
	slices.SortFunc(list, func(a, b *ledger.Pod) int {
		return cmp.Or(a.RankedAt.Compare(b.RankedAt), cmp.Compare(a.UID(), b.UID()))
	})
	for _, p := range list {
		namespace, reason := namespaceOfPod(p), "age"
		switch {
		case waits[namespace] > keep:
			reason = "number"
		case now.Sub(p.RankedAt) < waitsFor:
			continue
		}
		waits[namespace]--
		e.metrics.forgotten.WithLabelValues(reason).Inc()
		e.untrack(types.UID(p.UID()))
		e.state.cluster.Forget(p)
	}
}

func namespaceOfPod(p *ledger.Pod) string {
	if object, ok := p.Object.(*v1.Pod); ok {
		return object.Namespace
	}
	return ""
}

// mostOfEach returns the largest number of pods that each namespace may keep so that at most all remain in total.
func mostOfEach(waits map[string]int, all int) int {
	counts := slices.Sorted(maps.Values(waits))
	for i, n := range counts {
		if share := all / (len(counts) - i); n > share {
			return share
		}
		all -= n
	}
	return all
}
