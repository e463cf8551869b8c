package sigma

import (
	"context"
	"sync/atomic"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/sigma-scheduler/sigma/plugins/apis/config"
	"github.com/sigma-scheduler/sigma/plugins/drain"
	"github.com/sigma-scheduler/sigma/plugins/evict"
	"github.com/sigma-scheduler/sigma/plugins/kube"
)

// rebalancing is true while a profile of this process executes Rebalances: one does, and
// another takes over when it stops.
var rebalancing atomic.Bool

// takeOverEvery is the interval at which a profile checks whether one does.
const takeOverEvery = 10 * time.Second

// takeTurns runs a function in a goroutine until ctx ends, whenever no other caller does. The first caller begins. A function
// that ends early is started again, by another caller if there is one.
func takeTurns(ctx context.Context, busy *atomic.Bool, run func(context.Context) error) {
	mine := busy.CompareAndSwap(false, true)
	turn := func() {
		defer busy.Store(false)
		if err := run(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot carry out Rebalances; it is tried again")
		}
	}
	go func() {
		for {
			pause := takeOverEvery
			if mine {
				turn()
				pause *= 2 // the others first
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			mine = busy.CompareAndSwap(false, true)
		}
	}()
}

// rebalance executes Rebalances until ctx ends, while no other profile does.
func (p *Plugin) rebalance(ctx context.Context, a *config.SigmaArgs, profile string) error {
	h := p.handle
	cluster, err := newChainCluster(h, h.KubeConfig(), a.PolicyName, a.AppLabel)
	if err != nil {
		return err
	}
	if cluster.evictor, err = newEvictor(h, h.KubeConfig(), evict.Rebalance, evict.OfRebalance); err != nil {
		return err
	}
	prices, err := kube.ReadPrices(a.Prices)
	if err != nil {
		return err
	}
	o := drain.Options{
		AppLabel: a.AppLabel, Fleet: a.Fleet, Prices: prices, Profile: profile, MaxGrace: a.MaxGracePeriod.Duration, Recorder: h.EventRecorder(), Prometheus: a.RebalancePrometheus,
		Site: &rebalanceSite{cluster}, Holder: p.engine,
	}
	takeTurns(ctx, &rebalancing, func(ctx context.Context) error { return drain.Run(ctx, h.KubeConfig(), o) })
	return nil
}

// rebalanceSite is the cluster of Rebalances.
type rebalanceSite struct{ *chainCluster }

// NotEvictable implements [drain.Site]: the controller checks constraints on other pods.
func (s *rebalanceSite) NotEvictable() func(*v1.Pod) bool { return s.budgeted() }

// Pods implements [drain.Site].
func (s *rebalanceSite) Pods() []*v1.Pod {
	list, _ := s.pods.List(labels.Everything()) // of an informer's store: it does not fail
	return list
}

// Nodes implements [drain.Site].
func (s *rebalanceSite) Nodes() []*v1.Node {
	list, _ := s.nodes.List(labels.Everything())
	return list
}

// sourceOf names a Rebalance in the records of evictions.
func sourceOf(name string) evict.Source { return evict.Rebalance + ":" + evict.Source(name) }

// Evict implements [drain.Site].
func (s *rebalanceSite) Evict(ctx context.Context, name string, perHour int, pod *v1.Pod) error {
	return s.evictor.EvictAs(ctx, sourceOf(name), perHour, pod)
}

// Evicted implements [drain.Site].
func (s *rebalanceSite) Evicted(ctx context.Context, name string) (int, error) {
	return s.evictor.Count(ctx, sourceOf(name))
}

// Full implements [drain.Site].
func (s *rebalanceSite) Full(ctx context.Context, pods []*v1.Pod) error {
	return s.evictor.Full(ctx, pods)
}

// Recent implements [drain.Site].
func (s *rebalanceSite) Recent(ctx context.Context) (func(*v1.Pod) int, error) {
	return s.evictor.Recent(ctx)
}

// PatchNode implements [drain.Site].
func (s *rebalanceSite) PatchNode(ctx context.Context, name string, patch []byte) error {
	_, err := s.handle.ClientSet().CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "sigma-scheduler"})
	return err
}

func listOfEvictions(verb string) authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{Verb: verb, Version: "v1", Resource: "configmaps", Namespace: evict.ListNamespace, Name: evict.ListName}
}

// MissingRight implements [drain.Site]. It queries the API server, which every account may.
func (s *rebalanceSite) MissingRight(ctx context.Context) (string, error) {
	for _, right := range []struct {
		name string
		authorizationv1.ResourceAttributes
	}{
		{"patch nodes", authorizationv1.ResourceAttributes{Verb: "patch", Version: "v1", Resource: "nodes"}},
		{"create evictions of pods", authorizationv1.ResourceAttributes{Verb: "create", Version: "v1", Resource: "pods", Subresource: "eviction"}},
		{"patch the status of deployments", authorizationv1.ResourceAttributes{Verb: "patch", Group: "apps", Version: "v1", Resource: "deployments", Subresource: "status"}},
		{"get the ConfigMap " + evict.ListName, listOfEvictions("get")},
		{"create the ConfigMap " + evict.ListName, listOfEvictions("create")},
		{"patch the ConfigMap " + evict.ListName, listOfEvictions("patch")},
	} {
		review, err := s.handle.ClientSet().AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &right.ResourceAttributes},
		}, metav1.CreateOptions{})
		if err != nil {
			return "", err
		}
		if !review.Status.Allowed {
			return right.name, nil
		}
	}
	return "", nil
}
