package updater

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
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

// evict evicts one pod that cannot be resized in place, so that its replacement is created with
// the right size, if there may be room for the replacement. Pods that are ill are the first:
// their eviction loses nothing, whatever the state of the others. Another pod is evicted only if
// it is one of at least two and all are ready. Each pod that existed at the start is evicted at
// most once. If the victims' nodes are many, the search for room continues in the next reconcile.
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
	var room *podspec.Room
	searches, more := 0, false
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
		if node := victim.Spec.NodeName; !o.full[node] {
			if searches == maxSearches {
				c.note(victim, "not evicted, room is looked for later")
				more = true
				continue
			}
			if room == nil {
				if room, err = u.room(ctx); err != nil {
					return err
				}
			}
			if hasRoom(m, room, victim, w, want) {
				return u.evictPod(ctx, m, o, own, c, victim)
			}
			if o.full == nil {
				o.full = map[string]bool{}
			}
			o.full[node] = true
			searches++
		}
		c.note(victim, "not evicted, since no other node has room")
	}
	if !more {
		o.full = nil // the next search begins again
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

// roomAge is the age up to which the reconciles of all objects share the room that was read.
const roomAge = time.Second

// A sharedRoom is the room on all nodes at a time.
type sharedRoom struct {
	mu   sync.Mutex
	room *podspec.Room
	time time.Time
}

// room returns the room on all nodes. It is read once in roomAge, as pods and objects may be many.
func (u *updater) room(ctx context.Context) (*podspec.Room, error) {
	s := &u.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	if age := u.clock.Since(s.time); s.room != nil && age >= 0 && age < roomAge {
		return s.room, nil
	}
	var nodes corev1.NodeList
	if err := u.direct.List(ctx, &nodes); err != nil {
		return nil, err
	}
	var pods corev1.PodList
	if err := u.client.List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil { // only read
		return nil, err
	}
	s.room, s.time = podspec.NewRoom(nodes.Items, pods.Items), u.clock.Now()
	return s.room, nil
}

// hasRoom reports whether a pod's replacement may find room. A pod whose resize its node could
// not grant needs another node; in mode Recreate the same node will do.
func hasRoom(m *v1alpha1.MultidimPodAutoscaler, room *podspec.Room, pod *corev1.Pod, w *workload, want map[string]mpa.Resources) bool {
	next := pod.DeepCopy()
	next.Status = corev1.PodStatus{ExtendedResourceClaimStatus: pod.Status.ExtendedResourceClaimStatus}
	plan := actuate.PlanPod(pod, &w.Template.Spec, want, actuate.LimitsOf(m))
	for i := range next.Spec.Containers {
		if to, ok := plan.Containers[next.Spec.Containers[i].Name]; ok {
			next.Spec.Containers[i].Resources = to
		}
	}
	return room.Has(next, pod, m.Spec.Mode != v1alpha1.ModeRecreate)
}
