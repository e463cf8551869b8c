package updater

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/actuate"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/evict"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// evict evicts one pod that cannot be resized in place, so that its replacement is created
// with the right size, if there may be room for the replacement. Pods that are ill are the first:
// nothing is lost with them, whatever the state of the others. Another pod is evicted only if it
// is one of at least two and all are ready. Each pod that existed at the
// start is evicted at most once.
func (u *updater) evict(ctx context.Context, m *v1alpha1.MultidimPodAutoscaler, o *object, own *ownStatus, w *workload, c *count, want map[string]mpa.Resources) error {
	pods, err := w.pods(ctx, u.direct) // the cache shows an eviction late
	if err != nil {
		return err
	}
	pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	well := 0
	for i := range pods {
		if ready(&pods[i]) {
			well++
		}
	}
	var nodes *corev1.NodeList
	full := map[string]bool{} // nodes whose pods have no room elsewhere
	for _, victim := range victims(pods, c.evict) {
		switch {
		case ill(victim) && u.clock.Now().Before(o.evicted.Add(evictionWait)):
			c.note(victim, "to be evicted a moment after another one")
			return nil
		case ill(victim):
		case w.Replicas < 2:
			c.note(victim, "not evicted, since there is no other")
			return nil
		case !w.settled || well != len(pods) || len(pods) != int(w.Replicas):
			c.note(victim, "to be evicted once all others are ready")
			return nil
		}
		if why := podspec.AboveCeiling(victim, u.MaxGrace); why != "" {
			c.note(victim, "not evicted: %s", why)
			continue
		}
		if full[victim.Spec.NodeName] {
			continue
		}
		if nodes == nil {
			nodes = &corev1.NodeList{}
			if err := u.direct.List(ctx, nodes); err != nil {
				return err
			}
		}
		room, err := u.room(ctx, m, victim, w, want, nodes.Items)
		if err != nil {
			return err
		}
		if room {
			return u.evictPod(ctx, m, o, own, c, victim)
		}
		full[victim.Spec.NodeName] = true
		c.note(victim, "not evicted, since no other node has room")
	}
	return nil
}

// victims returns the present pods that are to be evicted, those first that are ill.
func victims(pods []corev1.Pod, listed []*corev1.Pod) []*corev1.Pod {
	wanted := map[types.UID]bool{}
	for _, p := range listed {
		wanted[p.UID] = true
	}
	var list []*corev1.Pod
	for i := range pods {
		if wanted[pods[i].UID] {
			list = append(list, &pods[i])
		}
	}
	rank := func(p *corev1.Pod) int {
		if ill(p) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b *corev1.Pod) int { return cmp.Compare(rank(a), rank(b)) })
	return list
}

// evictPod evicts a pod and counts it.
func (u *updater) evictPod(ctx context.Context, m *v1alpha1.MultidimPodAutoscaler, o *object, own *ownStatus, c *count, victim *corev1.Pod) error {
	a := &own.actuation
	a.Evicted++ // counted before it is done, so that a kill in between cannot hide it
	if err := u.write(ctx, m, o, *own, ""); err != nil {
		return err
	}
	o.evicted = u.clock.Now()
	err := u.evictor.Evict(ctx, victim)
	var uncertain *evict.UncertainError
	switch {
	case err == nil:
		u.metrics.evictions.WithLabelValues("Evicted").Inc()
		u.events.Eventf(m, corev1.EventTypeNormal, "Evicted", "pod %s, for recommendation %d", victim.Name, a.Sizes.ID)
		c.note(victim, "evicted")
		return nil
	case errors.As(err, &uncertain):
		u.metrics.evictions.WithLabelValues("Retried").Inc()
		return err // counted: it may have happened
	}
	o.evicted = time.Time{}
	a.Evicted--
	u.metrics.evictions.WithLabelValues("Refused").Inc()
	c.note(victim, "not evicted: %v", err)
	return nil
}

// room reports whether a pod's replacement may find room on one of the nodes. A pod whose
// resize its node could not grant needs another node; in mode Recreate the same node will do.
func (u *updater) room(ctx context.Context, m *v1alpha1.MultidimPodAutoscaler, pod *corev1.Pod, w *workload, want map[string]mpa.Resources, nodes []corev1.Node) (bool, error) {
	next := pod.DeepCopy()
	next.Status = corev1.PodStatus{ExtendedResourceClaimStatus: pod.Status.ExtendedResourceClaimStatus}
	plan := actuate.PlanPod(pod, &w.Template.Spec, want)
	for i := range next.Spec.Containers {
		if to, ok := plan.Containers[next.Spec.Containers[i].Name]; ok {
			next.Spec.Containers[i].Resources = to
		}
	}
	if m.Spec.Mode != v1alpha1.ModeRecreate {
		nodes = slices.DeleteFunc(slices.Clone(nodes), func(n corev1.Node) bool { return n.Name == pod.Spec.NodeName })
	}
	var pods corev1.PodList
	if err := u.client.List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil { // only read
		return false, err
	}
	return podspec.HasRoom(next, nodes, pods.Items), nil
}
