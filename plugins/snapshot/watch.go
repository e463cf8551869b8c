package snapshot

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/sigma-scheduler/sigma/plugins/history"
)

// A Watch holds the duration of a recording and its callbacks.
type Watch struct {
	Until time.Time
	// Save is called at the beginning, from time to time, and at the end.
	Save func() error
	// Notify is called with messages for the user.
	Notify func(text string)
	// Seen is called after each look at the cluster.
	Seen func(history.Counts)

	look, declared, save time.Duration // intervals; 0: the usual ones
}

const (
	lookEvery     = time.Second
	declaredEvery = time.Minute
	saveEvery     = 10 * time.Minute
	restFactor    = 20               // at most a twentieth of a core
	silence       = 15 * time.Minute // without an answer for longer, a stream lacks the events meanwhile
)

// Watch records until a time or an interrupt, and saves the recording in both cases.
// When the API server is away, Watch records the changes once it is back.
func (c *Client) Watch(ctx context.Context, r *Recorder, w Watch) error {
	p, err := c.Read(ctx)
	if err != nil {
		return err
	}
	if err := r.SameCluster(p); err != nil {
		return err
	}
	if err := r.Record(p, time.Now()); err != nil {
		return err
	}
	w.Seen(r.Counts())
	if err := w.Save(); err != nil {
		return err
	}
	watching, stop := context.WithDeadline(ctx, w.Until)
	defer stop()
	f, err := c.follow(watching, w.Notify)
	if err != nil {
		return err
	}
	err = f.record(watching, c, r, p, &w)
	stop()
	f.wait()
	return errors.Join(err, w.Save())
}

// A follower keeps nodes and pods up to date by watches.
type follower struct {
	nodes, pods cache.SharedIndexInformer
	changed     chan struct{}
	away        atomic.Bool  // the API server does not answer
	since       atomic.Int64 // time of its last answer, in seconds since 1970
	missed      atomic.Bool  // that was long ago, and it answers again
	refused     chan error   // a right was taken away
	done        chan struct{}
}

// follow starts the watches.
func (c *Client) follow(ctx context.Context, notify func(string)) (*follower, error) {
	f := &follower{changed: make(chan struct{}, 1), refused: make(chan error, 2), done: make(chan struct{}, 2)}
	client, err := c.of(v1.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	start := func(resource, selector string, object runtime.Object) (cache.SharedIndexInformer, error) {
		only, err := fields.ParseSelector(selector)
		if err != nil {
			return nil, err
		}
		informer := cache.NewSharedIndexInformer(cache.NewListWatchFromClient(client, resource, "", only), object, 0, nil)
		_, added := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { f.touch(notify) },
			UpdateFunc: func(any, any) { f.touch(notify) },
			DeleteFunc: func(any) { f.touch(notify) },
		})
		err = errors.Join(added, informer.SetTransform(dropManagedFields), informer.SetWatchErrorHandler(func(_ *cache.Reflector, err error) {
			f.failed(c, resource, err, notify)
		}))
		if err != nil {
			return nil, err
		}
		go func() {
			informer.Run(ctx.Done())
			f.done <- struct{}{}
		}()
		return informer, nil
	}
	if f.nodes, err = start("nodes", "", &v1.Node{}); err != nil {
		return nil, err
	}
	f.pods, err = start("pods", notEnded, &v1.Pod{})
	return f, err
}

func dropManagedFields(object any) (any, error) {
	if o, err := meta.Accessor(object); err == nil {
		o.SetManagedFields(nil)
	}
	return object, nil
}

func (f *follower) touch(notify func(string)) {
	if f.away.Swap(false) {
		if time.Since(time.Unix(f.since.Load(), 0)) > silence {
			f.missed.Store(true)
		}
		notify("the API server answers again")
	}
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// failed handles the error of a watch or list, which client-go retries.
func (f *follower) failed(c *Client, resource string, err error, notify func(string)) {
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		select {
		case f.refused <- c.explain("watch", resource, err):
		default:
		}
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err): // regular events of a watch
	default:
		if !f.away.Swap(true) {
			f.since.Store(time.Now().Unix())
			notify(fmt.Sprintf("the API server does not answer; the recording resumes when it does (%v)", err))
		}
	}
}

// wait waits until both watches have ended.
func (f *follower) wait() {
	<-f.done
	<-f.done
}

// record records the cluster at intervals until the context ends.
func (f *follower) record(ctx context.Context, c *Client, r *Recorder, p *Picture, w *Watch) error {
	every := func(d, usual time.Duration) *time.Ticker {
		if d == 0 {
			d = usual
		}
		return time.NewTicker(d)
	}
	look, declared, save := every(w.look, lookEvery), every(w.declared, declaredEvery), every(w.save, saveEvery)
	defer look.Stop()
	defer declared.Stop()
	defer save.Stop()
	next := &Picture{Rules: p.Rules, Served: p.Served}
	var rest time.Time // no look before: in a large cluster one takes long
	take := func() error {
		begin := time.Now()
		defer func() { rest = time.Now().Add(restFactor * time.Since(begin)) }()
		if !f.nodes.HasSynced() || !f.pods.HasSynced() {
			f.again()
			return nil
		}
		next.Nodes, next.Pods = all[v1.Node](f.nodes), all[v1.Pod](f.pods)
		next.sort()
		if f.missed.Swap(false) {
			r.Miss()
		}
		if err := r.Record(next, time.Now()); err != nil {
			return err
		}
		next.Declared = nil // it counts once
		w.Seen(r.Counts())
		return nil
	}
	for {
		select {
		case <-ctx.Done():
			return take()
		case err := <-f.refused:
			return err
		case <-declared.C:
			fresh := &Picture{}
			if err := c.readWorkloads(ctx, fresh); err != nil {
				continue // the watches report that the API server is away
			}
			next.Declared, next.Rules, next.Served = fresh.Declared, fresh.Rules, fresh.Served
		case <-save.C:
			if err := w.Save(); err != nil {
				return err
			}
			continue
		case <-look.C:
			if time.Now().Before(rest) {
				continue
			}
			select {
			case <-f.changed:
			default:
				continue
			}
		}
		if err := take(); err != nil {
			return err
		}
	}
}

// again requests another look.
func (f *follower) again() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

func all[T any](informer cache.SharedIndexInformer) []*T {
	objects := informer.GetStore().List()
	list := make([]*T, 0, len(objects))
	for _, o := range objects {
		if object, ok := o.(*T); ok {
			list = append(list, object)
		}
	}
	return list
}
