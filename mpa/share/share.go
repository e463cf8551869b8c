// Package share divides a number of places between namespaces, so that the objects of one cannot keep
// those of the others waiting.
package share

import (
	"context"
	"maps"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// turnedAwayFor is the time for which a namespace that was turned away counts as waiting for a
	// place.
	turnedAwayFor = 3 * time.Second
	// later is the wait before an object is tried again that was turned away.
	later = time.Second
)

// Places are taken and given back. A namespace has at most an equal share of them, counting those namespaces that
// have places or were turned away lately. It may be used concurrently.
type Places struct {
	most, spare int
	now         func() time.Time

	mu     sync.Mutex
	taken  map[string]int       // by namespace
	all    int                  // the sum of them
	turned map[string]time.Time // when a namespace was turned away last
}

// New returns most places, with shares as if there were spare more namespaces, whose first places stay free. spare is
// 0 if those who are turned away retry by themselves, and 1 if they queue behind all others.
func New(most, spare int, now func() time.Time) *Places {
	return &Places{most: max(1, most), spare: spare, now: now, taken: map[string]int{}, turned: map[string]time.Time{}}
}

// Enter takes a place for a namespace, which Leave gives back. It reports false where its share, or all, is taken.
func (p *Places) Enter(namespace string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	maps.DeleteFunc(p.turned, func(_ string, at time.Time) bool { return now.Sub(at) >= turnedAwayFor })
	want := len(p.taken)
	for other := range p.turned {
		if p.taken[other] == 0 && other != namespace {
			want++
		}
	}
	if p.taken[namespace] == 0 {
		want++
	}
	left := p.most - p.all
	if has := p.taken[namespace]; left < 1 || has > 0 && left <= p.spare || has >= max(1, p.most/(want+p.spare)) {
		p.turned[namespace] = now
		return false
	}
	delete(p.turned, namespace)
	p.taken[namespace]++
	p.all++
	return true
}

// Leave gives a place back.
func (p *Places) Leave(namespace string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
	if p.taken[namespace]--; p.taken[namespace] == 0 {
		delete(p.taken, namespace)
	}
}

// Taken is the number of places of a namespace.
func (p *Places) Taken(namespace string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken[namespace]
}

// All is the number of places taken.
func (p *Places) All() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all
}

// Reconciler returns a reconciler for twice as many workers as one namespace may have at a time. An object
// beyond its namespace's share is tried again a second later, so that the queue behind it moves on.
func Reconciler(next reconcile.Reconciler, workers int, now func() time.Time) reconcile.Reconciler {
	places := New(Workers(workers), 1, now)
	return reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
		if !places.Enter(r.Namespace) {
			return reconcile.Result{RequeueAfter: later}, nil
		}
		defer places.Leave(r.Namespace)
		return next.Reconcile(ctx, r)
	})
}

// Workers is the number of workers of a controller of which one namespace may have ofOne.
func Workers(ofOne int) int { return 2 * ofOne }
