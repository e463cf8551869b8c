package share_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sigma-scheduler/sigma/mpa/share"
)

// One namespace has all places while it is alone. Another one that is turned away has half of them as soon as they are
// given back, although the first goes on asking.
func TestTwoTenantsSharePlaces(t *testing.T) {
	at := time.Now()
	p := share.New(8, 0, func() time.Time { return at })
	for range 8 {
		require.True(t, p.Enter("a"))
	}
	require.False(t, p.Enter("b"))
	for range 4 {
		p.Leave("a")
		require.False(t, p.Enter("a"), "the place is for the other")
		require.True(t, p.Enter("b"))
	}
	require.False(t, p.Enter("b"))
	require.Equal(t, 4, p.Taken("a"))
	require.Equal(t, 8, p.All())
	for range 4 {
		p.Leave("b")
	}
	at = at.Add(time.Minute)
	require.True(t, p.Enter("a"), "nobody else has asked for a while")
}

// With a spare share a newcomer finds a place at once, although two others have taken all that they could.
func TestSpareShare(t *testing.T) {
	p := share.New(8, 1, time.Now)
	for _, name := range []string{"a", "b"} {
		require.True(t, p.Enter(name))
		for p.Enter(name) {
		}
	}
	require.True(t, p.Enter("new"))
}

// queue is one controller: workers take requests from a queue, in order, and put back what is to be tried later.
func queue(ctx context.Context, workers int, r reconcile.Reconciler) workqueue.TypedDelayingInterface[reconcile.Request] {
	q := workqueue.NewTypedDelayingQueue[reconcile.Request]()
	for range workers {
		go func() {
			for {
				request, down := q.Get()
				if down {
					return
				}
				result, _ := r.Reconcile(ctx, request)
				q.Done(request)
				q.AddAfter(request, result.RequeueAfter)
			}
		}()
	}
	return q
}

// 5,000 objects of tenant a, each of which takes as long as an observation may, are due all the time. The one of tenant b is
// reconciled within two seconds of its time.
func TestTwoTenantsShareWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = 15 * time.Second
		var last time.Time
		var most time.Duration
		var slow atomic.Int64
		r := reconcile.Func(func(_ context.Context, r reconcile.Request) (reconcile.Result, error) {
			if r.Namespace == "a" {
				slow.Add(1)
				time.Sleep(5 * time.Second)
				return reconcile.Result{RequeueAfter: interval}, nil
			}
			most = max(most, time.Since(last)-interval)
			last = time.Now()
			return reconcile.Result{RequeueAfter: interval}, nil
		})
		q := queue(t.Context(), share.Workers(16), share.Reconciler(r, 16, time.Now))
		for i := range 5000 {
			q.Add(request("a", i))
		}
		last = time.Now().Add(-interval)
		q.Add(request("b", 0))
		time.Sleep(5 * time.Minute)
		q.ShutDown()
		time.Sleep(10 * time.Second)
		require.Less(t, most, 2*time.Second)
		require.Less(t, time.Since(last), interval+15*time.Second)
		require.GreaterOrEqual(t, slow.Load(), int64(5*60/5*10), "the workers of the others do not stand idle")
	})
}

func request(namespace string, i int) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(i)}}
}
