package main

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	netheader "knative.dev/networking/pkg/http/header"
	netstats "knative.dev/networking/pkg/http/stats"
	knative "knative.dev/serving/pkg/activator"
	"knative.dev/serving/pkg/queue"

	"github.com/sigma-scheduler/sigma/lab/podspace"
)

// An activator passes the requests of clients in this process on to pods, as Knative's does for a Revision: it holds
// them while no pod has room. Of pods that take any number the one with fewer inside of two drawn ones gets a request,
// up to a limit of 3 the first that has room, else they take turns. Breakers and the count of requests are Knative's.
type activator struct {
	limit int
	room  *queue.Breaker // of all pods; nil = they take any number
	stats *netstats.RequestStats
	ended context.Context
	end   context.CancelFunc

	mu   sync.Mutex
	rng  *rand.Rand
	pods []*backend
	turn int
	some chan struct{} // closed while there are pods
}

// A backend is a pod that takes requests.
type backend struct {
	pod    *pod
	room   *queue.Breaker // nil = any number
	inside atomic.Int64
}

// held is how many requests an activator holds, at most.
const held = 10_000

func newActivator(limit int) *activator {
	a := &activator{limit: limit, stats: netstats.NewRequestStats(time.Now()), some: make(chan struct{}), rng: rand.New(rand.NewPCG(uint64(limit), 0xac7))}
	a.ended, a.end = context.WithCancel(context.Background())
	if limit > 0 {
		a.room = queue.NewBreaker(queue.BreakerParams{QueueDepth: held, MaxConcurrency: queue.MaxBreakerCapacity})
	}
	return a
}

// add lets a pod take requests.
func (a *activator) add(d *pod) *backend {
	b := &backend{pod: d}
	if a.limit > 0 {
		b.room = queue.NewBreaker(queue.BreakerParams{QueueDepth: held, MaxConcurrency: a.limit, InitialCapacity: a.limit})
	}
	a.change(func() { a.pods = append(a.pods, b) })
	return b
}

// remove lets a pod take no more; requests may still be inside.
func (a *activator) remove(b *backend) {
	a.change(func() {
		if i := slices.Index(a.pods, b); i >= 0 {
			a.pods = slices.Delete(slices.Clone(a.pods), i, i+1) // others may read the former list
		}
	})
}

func (a *activator) change(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := len(a.pods)
	f()
	switch now := len(a.pods); {
	case before == 0 && now > 0:
		close(a.some)
	case before > 0 && now == 0:
		a.some = make(chan struct{})
	}
	if a.room != nil {
		a.room.UpdateConcurrency(a.limit * len(a.pods))
	}
}

// ready returns the pods that take requests.
func (a *activator) ready() []*backend {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pods
}

// hold calls f when there is room for one more.
func (a *activator) hold(ctx context.Context, f func()) error {
	if a.room != nil {
		return a.room.Maybe(ctx, f)
	}
	a.mu.Lock()
	some := a.some
	a.mu.Unlock()
	select {
	case <-some:
		f()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// choose returns a pod with room in it, which the caller gives back; nil = others have taken it all.
func (a *activator) choose(ctx context.Context) (b *backend, back func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := len(a.pods)
	if n == 0 {
		return nil, nil
	}
	if a.limit == 0 {
		b = a.pods[a.rng.IntN(n)]
		if n > 1 {
			if other := a.pods[(slices.Index(a.pods, b)+1+a.rng.IntN(n-1))%n]; other.inside.Load() < b.inside.Load() {
				b = other
			}
		}
		b.inside.Add(1)
		return b, func() { b.inside.Add(-1) }
	}
	first := 0
	if a.limit > 3 {
		first = a.turn
	}
	for i := range n {
		at := (first + i) % n
		b := a.pods[at] // the list may be another one when the room is given back
		if back, ok := b.room.Reserve(ctx); ok {
			a.turn = at + 1
			b.inside.Add(1)
			return b, func() {
				b.inside.Add(-1)
				back()
			}
		}
	}
	return nil, nil
}

var queueAddress = net.JoinHostPort("127.0.0.1", strconv.Itoa(podspace.QueuePort))

// RoundTrip implements [http.RoundTripper]: the answer has been read when it returns.
func (a *activator) RoundTrip(r *http.Request) (response *http.Response, err error) {
	a.stats.HandleEvent(netstats.ReqEvent{Time: time.Now(), Type: netstats.ReqIn})
	defer func() { a.stats.HandleEvent(netstats.ReqEvent{Time: time.Now(), Type: netstats.ReqOut}) }()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(a.ended, cancel)()
	for done := false; !done; {
		full := a.hold(ctx, func() {
			b, back := a.choose(ctx)
			if b == nil {
				return
			}
			defer back()
			done = true
			response, err = b.pod.forward(ctx, r)
		})
		if full != nil {
			return nil, full
		}
	}
	return response, err
}

// forward sends a request to queue-proxy and reads the answer.
func (d *pod) forward(ctx context.Context, r *http.Request) (*http.Response, error) {
	to := r.Clone(ctx)
	to.URL.Scheme, to.URL.Host = "http", queueAddress
	to.Header.Set(netheader.ProxyKey, knative.Name) // it has been counted
	response, err := d.client.Transport.RoundTrip(to)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(text))
	return response, err
}
