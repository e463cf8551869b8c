package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"

	"github.com/sigma-scheduler/sigma/plugins/kube"
)

const (
	// compareEvery is the interval at which the state is compared with the informers.
	compareEvery = time.Minute
	// settling is the time after a change when a Sync is sure to have it, also on a busy machine.
	settling = 5 * time.Second
	// repairEvery is the least time between two restarts of the state for a difference.
	repairEvery = time.Hour
	// mostTold bounds the differences that one comparison logs.
	mostTold = 10
)

// compared are the differences of the last comparison, with the time when each was first seen.
type compared struct {
	since      map[kube.Difference]time.Time
	told       map[kube.Difference]bool
	repairedAt time.Time
}

// Compare compares the state with the cluster as informers report it and returns the
// differences that count: those that were seen before, and that no Sync has corrected since. It sets
// the gauge, logs them, and has the state rebuilt, at most once an hour. synced is the last Sync
// before the cluster was listed: a later one may have seen changes after the list.
//
// There are no differences before the first Sync: a standby's state is empty.
func (e *Engine) Compare(with *kube.Snapshot, synced time.Time) []kube.Difference {
	e.mu.Lock()
	defer e.mu.Unlock()
	now, c := e.opt.Now(), &e.compared
	var all []kube.Difference
	if !e.state.fresh && e.state.broken == nil {
		all = e.state.cluster.Compare(with)
	}
	since, told := map[kube.Difference]time.Time{}, map[kube.Difference]bool{}
	var count []kube.Difference
	for _, d := range all {
		first, ok := c.since[d]
		if !ok {
			first = now
		}
		since[d] = first
		if !synced.After(first.Add(settling)) {
			continue
		}
		if count = append(count, d); !c.told[d] && len(told) < mostTold {
			klog.ErrorS(nil, "The packing state differs from the cluster", "profile", e.opt.Profile,
				"node", d.Node, "pod", d.Pod, "ours", d.Ours, "theirs", d.Theirs, "differences", len(all))
		}
		told[d] = true
	}
	c.since, c.told = since, told
	e.metrics.divergence.Set(float64(len(count)))
	if len(count) > 0 && (c.repairedAt.IsZero() || now.Sub(c.repairedAt) >= repairEvery) {
		c.repairedAt = now
		e.state.broken = fmt.Errorf("%d differences from the cluster, the first %+v", len(count), count[0])
	}
	return count
}

// lastSync returns whether and when the engine last read the nodes: a standby has not.
func (e *Engine) lastSync() (read bool, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.state.fresh, e.syncedAt
}

// CompareWith compares the state with a factory's nodes and pods every minute, and when the
// process gets SIGUSR2, until ctx ends. refresh brings the engine up to date first; nil if
// decisions do so.
func (e *Engine) CompareWith(ctx context.Context, factory informers.SharedInformerFactory, refresh func()) {
	core := factory.Core().V1()
	nodes, pods := core.Nodes(), core.Pods()
	have := []func() bool{nodes.Informer().HasSynced, pods.Informer().HasSynced}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR2)
	go func() {
		defer signal.Stop(asked)
		tick := time.NewTicker(compareEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-asked:
			case <-tick.C:
			}
			if read, _ := e.lastSync(); !read || !have[0]() || !have[1]() {
				continue
			}
			if refresh != nil {
				refresh()
			}
			_, synced := e.lastSync()
			n, err := nodes.Lister().List(labels.Everything())
			p, err2 := pods.Lister().List(labels.Everything())
			if err := errors.Join(err, err2); err != nil {
				klog.FromContext(ctx).Error(err, "Cannot compare the packing state")
				continue
			}
			differences := len(e.Compare(kube.NewSnapshot(n, p), synced))
			klog.FromContext(ctx).V(3).Info("Compared the packing state", "profile", e.opt.Profile, "nodes", len(n), "pods", len(p), "differences", differences)
		}
	}()
}
