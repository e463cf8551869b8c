package gate

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sigma-scheduler/sigma/mpa/capacity"
)

// Options of a gate.
type Options struct {
	Limit   int           // requests inside at once; 0 = any number
	Queue   int           // requests that wait, at most; 0 = no queue
	MaxWait time.Duration // longest wait of a request
	// Usage reads the usage of the pod; nil = unknown, and missing in the windows.
	Usage func() (Usage, error)
}

// DefaultOptions let any number in and keep 1,000 waiting for 10 s once there is a limit.
func DefaultOptions() Options { return Options{Queue: 1000, MaxWait: 10 * time.Second} }

// MostLimit is the largest limit.
const MostLimit = 10_000

// CheckLimit returns an error where a gate cannot have the limit.
func CheckLimit(n int) error {
	if n < 0 || n > MostLimit {
		return fmt.Errorf("limit: %d, want 0 (any number) to %d", n, MostLimit)
	}
	return nil
}

// Check returns an error that names the field.
func (o *Options) Check() error {
	switch {
	case o.Queue < 0:
		return fmt.Errorf("queue: %d, want 0 or more", o.Queue)
	case o.MaxWait < 0:
		return fmt.Errorf("wait: %v, want 0 or more", o.MaxWait)
	}
	return CheckLimit(o.Limit)
}

// A request is refused with one of these, or with its context's error.
var (
	ErrFull = errors.New("as many requests wait as may")
	ErrLate = errors.New("the request has waited as long as it may")
)

// ErrChanged means that the limit changed while a window was measured.
var ErrChanged = errors.New("the limit has changed within the window")

// An Outcome of a request that was let in.
type Outcome int

// Answered well, Failed by an error of the pod, or Gone: its caller left before the answer
// was complete.
const (
	Answered Outcome = iota
	Failed
	Gone
)

// Totals since a gate began.
type Totals struct {
	Answered, Failed, Gone uint64
	Full, Late             uint64        // refused
	Left                   uint64        // callers that left while they waited
	Busy                   time.Duration // sum over all requests of their time inside
}

// A Gate lets at most its limit of requests in at once; others wait in order of arrival. Its
// methods may be called at the same time.
type Gate struct {
	options Options

	mu      sync.Mutex
	limit   int
	changes uint64
	inside  int
	open    int       // of those inside, requests whose body is incomplete
	waiting list.List // of *waiter
	since   time.Time // up to which Busy is counted
	totals  Totals

	waited, took prometheus.Histogram
	// admitted is called, by tests, for each request that is let in.
	admitted func(inside, limit int)
}

type waiter struct {
	in    chan struct{} // closed when it is let in
	isIn  bool
	open  bool
	place *list.Element
}

// New returns an open gate.
func New(o Options) (*Gate, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	seconds := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(.001, 2, 16)})
	}
	return &Gate{
		options: o, limit: o.Limit, since: time.Now(),
		waited: seconds("sigma_gate_wait_seconds", "How long requests that were let in had waited."),
		took:   seconds("sigma_gate_request_seconds", "How long requests were inside."),
	}, nil
}

// Enter waits until the request may go in. The caller calls leave once, when it has ended.
func (g *Gate) Enter(ctx context.Context) (leave func(Outcome), err error) {
	v, err := g.visit(ctx, false)
	if err != nil {
		return nil, err
	}
	return v.leave, nil
}

// A visit is the time of one request inside.
type visit struct {
	gate  *Gate
	begun time.Time
	open  bool
}

// visit waits until the request may go in. The body of an open one is not there as a whole: such
// requests have at most half of the limit, so that callers who send slowly leave the rest to
// others.
func (g *Gate) visit(ctx context.Context, open bool) (*visit, error) {
	came := time.Now()
	if err := g.enter(ctx, open); err != nil {
		return nil, err
	}
	v := &visit{gate: g, begun: time.Now(), open: open}
	g.waited.Observe(v.begun.Sub(came).Seconds())
	return v, nil
}

// whole records that the body of an open request is complete.
func (v *visit) whole() {
	v.gate.mu.Lock()
	defer v.gate.mu.Unlock()
	if v.open {
		v.open = false
		v.gate.open--
		v.gate.admit()
	}
}

func (v *visit) leave(o Outcome) {
	v.gate.took.Observe(time.Since(v.begun).Seconds())
	v.gate.mu.Lock()
	defer v.gate.mu.Unlock()
	v.gate.leave(o, v.open)
	v.open = false
}

// try lets a request in that need not wait; nil = it has to.
func (g *Gate) try(open bool) *visit {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.hasRoom(open) {
		return nil
	}
	g.in(open)
	g.waited.Observe(0)
	return &visit{gate: g, begun: g.since, open: open}
}

func (g *Gate) enter(ctx context.Context, open bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	g.mu.Lock()
	if g.hasRoom(open) { // then no waiting request could take it
		g.in(open)
		g.mu.Unlock()
		return nil
	}
	if g.waiting.Len() >= g.options.Queue {
		g.totals.Full++
		g.mu.Unlock()
		return ErrFull
	}
	w := &waiter{in: make(chan struct{}), open: open}
	w.place = g.waiting.PushBack(w)
	g.mu.Unlock()

	timer := time.NewTimer(g.options.MaxWait)
	defer timer.Stop()
	select {
	case <-w.in:
		return nil
	case <-ctx.Done():
	case <-timer.C:
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	left := ctx.Err()
	switch {
	case w.isIn && left == nil:
		return nil // both at once
	case w.isIn:
		g.leave(Gone, open)
		return left
	case left != nil:
		g.totals.Left++
	default:
		g.totals.Late++
		left = ErrLate
	}
	g.waiting.Remove(w.place)
	return left
}

func (g *Gate) leave(o Outcome, open bool) {
	g.count()
	g.inside--
	if open {
		g.open--
	}
	switch o {
	case Answered:
		g.totals.Answered++
	case Failed:
		g.totals.Failed++
	case Gone:
		g.totals.Gone++
	}
	g.admit()
}

// hasRoom reports whether one more may be inside.
func (g *Gate) hasRoom(open bool) bool {
	return g.limit == 0 || g.inside < g.limit && (!open || g.open < max(1, g.limit/2))
}

// in lets one more in, and counts the time up to now.
func (g *Gate) in(open bool) {
	g.count()
	g.inside++
	if open {
		g.open++
	}
	if g.admitted != nil {
		g.admitted(g.inside, g.limit)
	}
}

func (g *Gate) count() {
	now := time.Now()
	g.totals.Busy += time.Duration(g.inside) * now.Sub(g.since)
	g.since = now
}

// admit lets in who has waited longest of those who may.
func (g *Gate) admit() {
	for e := g.waiting.Front(); e != nil && g.hasRoom(false); {
		w, next := e.Value.(*waiter), e.Next()
		if g.hasRoom(w.open) {
			g.waiting.Remove(e)
			w.isIn = true
			close(w.in)
			g.in(w.open)
		}
		e = next
	}
}

// SetLimit changes the limit at once. Requests above a smaller one stay inside until they
// end. A limit that cannot be is refused, and the gate keeps the one it has.
func (g *Gate) SetLimit(n int) error {
	if err := CheckLimit(n); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if n != g.limit {
		g.limit = n
		g.changes++
		g.admit()
	}
	return nil
}

// Limit returns the active limit, 0 = any number.
func (g *Gate) Limit() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.limit
}

// Now returns how many requests are inside and wait, and the totals.
func (g *Gate) Now() (inside, waiting int, t Totals) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.count()
	return g.inside, g.waiting.Len(), g.totals
}

// sampled is the interval at which the memory is read within a window.
const sampled = 100 * time.Millisecond

// Window measures from now on for a length. Windows may be measured at the same time. It
// returns [ErrChanged] as soon as the limit changes. Values that cannot be read are missing.
func (g *Gate) Window(ctx context.Context, length time.Duration) (capacity.Window, error) {
	var w capacity.Window
	g.mu.Lock()
	g.count()
	limit, changes, before, begun := g.limit, g.changes, g.totals, g.since
	g.mu.Unlock()
	used, known := g.usage()
	most := used.Memory

	end := time.NewTimer(length)
	defer end.Stop()
	ticks := time.NewTicker(sampled)
	defer ticks.Stop()
	for ended := false; !ended; {
		select {
		case <-ctx.Done():
			return w, ctx.Err()
		case <-end.C:
			ended = true
		case <-ticks.C:
			if g.options.Usage == nil {
				break
			}
			now, ok := g.usage()
			known = known && ok
			most = max(most, now.Memory)
		}
		g.mu.Lock()
		changed := g.changes != changes
		g.mu.Unlock()
		if changed {
			return w, ErrChanged
		}
	}
	now, ok := g.usage()
	g.mu.Lock()
	g.count()
	after, until, changed := g.totals, g.since, g.changes != changes
	g.mu.Unlock()
	if changed {
		return w, ErrChanged
	}
	seconds := until.Sub(begun).Seconds()
	w = capacity.Window{
		Time: until.UTC(), Length: capacity.Some(seconds), Limit: capacity.Some(float64(limit)),
		Inside:   capacity.Some((after.Busy - before.Busy).Seconds() / seconds),
		Answered: capacity.Some(float64(after.Answered - before.Answered)),
		Failed:   capacity.Some(float64(after.Failed - before.Failed)),
		Gone:     capacity.Some(float64(after.Gone - before.Gone)),
	}
	if known && ok && now.CPU >= used.CPU && now.Quota == used.Quota && now.MemoryLimit == used.MemoryLimit { // else it is another container
		w.CPU, w.Quota = capacity.Some(now.CPU-used.CPU), capacity.Some(now.Quota)
		w.Memory, w.MemoryLimit = capacity.Some(max(most, now.Memory)), capacity.Some(now.MemoryLimit)
	}
	return w, nil
}

func (g *Gate) usage() (Usage, bool) {
	if g.options.Usage == nil {
		return Usage{}, false
	}
	u, err := g.options.Usage()
	return u, err == nil
}
