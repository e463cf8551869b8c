package updater

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/actuate"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/evict"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

const (
	// cacheLag is the longest delay of a resize in the cache; later, it was undone by others.
	cacheLag = 30 * time.Second
	// evictionWait is the wait before a delayed eviction is tried again without an event.
	evictionWait = 10 * time.Second
	// webhookLag is the longest delay of a size in the webhook's cache: a pod that is evicted
	// within it would be created with its former one.
	webhookLag = 2 * time.Second
	// maxSearches is the largest number of nodes for whose pods a reconcile searches room
	// elsewhere.
	maxSearches = 20
)

// A count of pods by the obstacle to their size.
type count struct {
	resized, inProgress, deferred, infeasible int32

	stuck   int // they cannot be changed
	waiting int // for their resize or eviction
	refused int
	asked   bool // the API server, for some resize
	why     []string
	evict   []*corev1.Pod
}

func (c *count) note(pod *corev1.Pod, format string, args ...any) {
	c.why = append(c.why, "pod "+pod.Name+": "+fmt.Sprintf(format, args...))
}

// follow resizes or evicts pods until they have the active requests, and counts them by
// state.
func (u *updater) follow(ctx context.Context, m *v1alpha1.MultidimPodAutoscaler, o *object, own *ownStatus, w *workload) (time.Duration, error) {
	a := &own.actuation
	if a.Sizes == nil || m.Spec.Mode == v1alpha1.ModeInitial {
		u.noPods(m, own)
		return 0, nil
	}
	if actuate.Digest(&w.Template.Spec, a.Sizes.Containers) != a.Sizes.Template {
		if a.ID == a.Sizes.ID && a.Outcome == v1alpha1.OutcomePartly {
			u.end(m, a, v1alpha1.OutcomeSuperseded, "the workload's template asks for other requests since")
		}
		a.Sizes = nil
		u.noPods(m, own)
		return 0, nil
	}
	want, err := actuate.Wanted(a.Sizes.Containers, actuate.Constraints(m))
	if err != nil {
		return 0, err
	}
	if !agrees(m, want) { // a recommendation that was not carried out differs
		u.noPods(m, own)
		return 0, nil
	}
	pods, err := w.pods(ctx, u.client)
	if err != nil {
		return 0, err
	}
	c, failed := u.resize(ctx, m, o, a, pods, w, want)
	a.Resized, a.InProgress, a.Deferred, a.Infeasible = c.resized, c.inProgress, c.deferred, c.infeasible
	after := time.Duration(0)
	if c.refused > 0 {
		after = lookAtQuotas
	}
	if c.deferred > 0 || c.inProgress > 0 {
		after = min(cacheLag, max(u.EvictAfter/10, time.Second))
	}
	switch soon := a.Sizes.Time.Add(u.webhookLag).Sub(u.clock.Now()); {
	case len(c.evict) == 0 || failed != nil:
	case soon > 0 && soon <= u.webhookLag: // else clocks differ
		after = soon
		c.waiting = max(1, c.waiting)
	default:
		after = evictionWait
		failed = u.evict(ctx, m, o, own, w, c, want)
	}
	u.judge(m, own, c)
	return after, failed
}

// agrees reports whether the last recommendation has the same requests, or no requests. A
// recommendation of replicas repeats the requests of the newest pod, which may have been
// capped or created without the recommended ones: it agrees.
func agrees(m *v1alpha1.MultidimPodAutoscaler, want map[string]mpa.Resources) bool {
	if m.Status.Recommendation.Change != v1alpha1.ChangeRequests {
		return true
	}
	containers := m.Status.Recommendation.Containers
	last, err := actuate.Wanted(containers, actuate.Constraints(m))
	return len(containers) == 0 || err == nil && maps.Equal(last, want)
}

// noPods records that no pod is being resized.
func (u *updater) noPods(m *v1alpha1.MultidimPodAutoscaler, own *ownStatus) {
	own.actuation.Resized, own.actuation.InProgress, own.actuation.Deferred, own.actuation.Infeasible = 0, 0, 0, 0
	if own.actuation.ID > 0 {
		u.condition(own, m, v1alpha1.ConditionResize, false, "None", "")
	}
}

// left counts a pod that can never have all of its size.
func (c *count) left(pod *corev1.Pod, want map[string]mpa.Resources) {
	for i := range pod.Spec.Containers {
		r := pod.Spec.Containers[i].Resources.Requests
		w := want[pod.Spec.Containers[i].Name]
		if w.CPU > 0 && podspec.Milli(r.Cpu()) == w.CPU || w.Memory > 0 && podspec.Value(r.Memory()) == w.Memory {
			return // it has the rest
		}
	}
	c.stuck++
}

// resize requests the resizes that are needed and counts all pods. A resize that restarts
// containers is requested at once for pods that are ill, and for one other pod at a time, while
// all are ready.
func (u *updater) resize(ctx context.Context, m *v1alpha1.MultidimPodAutoscaler, o *object, a *v1alpha1.Actuation, pods []corev1.Pod, w *workload, want map[string]mpa.Resources) (*count, error) {
	now, s := u.clock.Now(), a.Sizes
	// As many evictions as pods: clocks differ, or the workload shrank. No more of them.
	spent := a.Evicted >= w.Replicas
	c := &count{}
	var failed error
	var restart []int // pods that need one
	calm, there := true, 0
	seen := map[string]bool{}
	refuse := func(pod *corev1.Pod, last attempt) {
		c.note(pod, "%s", last.refused)
		if !last.infeasible {
			c.refused++
			return
		}
		c.infeasible++
		if !isYoung(pod, s.Time.Time, spent) && m.Spec.Mode == v1alpha1.ModeInPlaceOrRecreate {
			c.evict = append(c.evict, pod)
		}
	}
	u.letGo(ctx, m.Namespace, o, pods, now)
	ask := func(pod *corev1.Pod, plan actuate.Plan) {
		c.asked = true
		err := actuate.Resize(ctx, u.client, pod, plan, v1alpha1.OwnerUpdater)
		switch {
		case err == nil:
			o.asked[pod.UID] = attempt{id: s.ID, time: now}
			c.inProgress++
		case apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err), apierrors.IsConflict(err): // the pod is deleted, or another has its name
		case evict.Passing(err):
			c.waiting++
			failed = err
		default:
			// Since 1.36 the API server refuses requests that the pod's node can never grant.
			last := attempt{id: s.ID, time: now, want: want, refused: err.Error(), infeasible: apierrors.HasStatusCause(err, nodeCapacity)}
			o.asked[pod.UID] = last
			refuse(pod, last)
			if !now.Before(o.warned.Add(holdRefused)) {
				o.warned = now
				u.events.Eventf(m, corev1.EventTypeWarning, "ResizeRefused", "pod %s: %v", pod.Name, err)
			}
		}
	}
	for i := range pods {
		pod := &pods[i]
		seen[string(pod.UID)] = true
		if pod.DeletionTimestamp != nil {
			continue
		}
		there++
		calm = calm && ready(pod)
		young := isYoung(pod, s.Time.Time, spent)
		if m.Spec.Mode == v1alpha1.ModeRecreate {
			switch plan := actuate.PlanPod(pod, &w.Template.Spec, want, actuate.LimitsOf(m)); {
			case len(plan.Containers) == 0 && len(plan.Left) > 0:
				c.note(pod, "%s", strings.Join(plan.Left, ", "))
				c.left(pod, want)
			case len(plan.Containers) == 0:
				c.resized++
			case young:
				c.note(pod, "came without its size")
			default:
				c.waiting++
				c.evict = append(c.evict, pod)
			}
			continue
		}
		plan := actuate.PlanResize(pod, &w.Template.Spec, want, actuate.LimitsOf(m))
		if len(plan.Left) > 0 {
			c.note(pod, "%s", strings.Join(plan.Left, ", "))
		}
		if len(plan.Containers) == 0 {
			u.count(c, pod, plan, young, m.Spec.Mode, want)
			calm = calm && c.inProgress == 0
			continue
		}
		switch last := o.asked[pod.UID]; {
		case pod.Spec.NodeName == "":
			c.waiting++
		case last.holds(want, now):
			refuse(pod, last)
		case last.id == s.ID && last.refused == "" && now.Before(last.time.Add(cacheLag)):
			c.inProgress++
			calm = false
		case last.id == s.ID && last.refused == "":
			c.note(pod, "somebody else changed its requests since")
		case failed != nil:
			c.waiting++
		case plan.Restarts && !ill(pod):
			restart = append(restart, i)
			c.waiting++
		default:
			ask(pod, plan)
		}
	}
	if len(restart) > 0 && calm && there >= int(w.Replicas) && failed == nil {
		c.waiting--
		ask(&pods[restart[0]], actuate.PlanResize(&pods[restart[0]], &w.Template.Spec, want, actuate.LimitsOf(m)))
	}
	for uid := range o.asked {
		if !seen[string(uid)] {
			delete(o.asked, uid)
		}
	}
	if c.asked && c.refused > 0 {
		o.room, o.looked = u.roomOf(ctx, m.Namespace, pods), now
	}
	return c, failed
}

// nodeCapacity is the cause that the API server's admission plugin PodResize gives when it
// refuses a resize beyond the node's allocatable amounts.
const nodeCapacity metav1.CauseType = "NodeCapacity"

// isYoung reports whether a pod is not evicted for the size of a time: it was created since,
// or all evictions are spent. A creation time has whole seconds: one of the same second may be
// from before, and such a pod would keep its former size for good.
func isYoung(pod *corev1.Pod, size time.Time, spent bool) bool {
	return spent || pod.CreationTimestamp.After(size)
}

// count counts a pod for which every possible resize was requested.
func (u *updater) count(c *count, pod *corev1.Pod, plan actuate.Plan, young bool, mode v1alpha1.Mode, want map[string]mpa.Resources) {
	state, condition := actuate.StateOf(pod)
	note := func() {
		if condition.Message != "" {
			c.note(pod, "%s: %s", state, condition.Message)
		}
	}
	late := false
	switch state {
	case actuate.InProgress:
		c.inProgress++
		if condition.Reason == corev1.PodReasonError {
			note()
		}
	case actuate.Deferred:
		c.deferred++
		note()
		late = !u.clock.Now().Before(condition.LastTransitionTime.Add(u.EvictAfter))
	case actuate.Infeasible:
		c.infeasible++
		note()
		late = true
	case actuate.Resized:
		if len(plan.Left) == 0 {
			c.resized++
		} else {
			c.left(pod, want)
		}
	}
	if late && !young && mode == v1alpha1.ModeInPlaceOrRecreate {
		c.evict = append(c.evict, pod)
	}
}

// judge writes the outcome of the requests, and the pods that remain, to the status.
func (u *updater) judge(m *v1alpha1.MultidimPodAutoscaler, own *ownStatus, c *count) {
	a := &own.actuation
	why := strings.Join(c.why[:min(len(c.why), 3)], "; ")
	if more := len(c.why) - 3; more > 0 {
		why += fmt.Sprintf("; and %d more", more)
	}
	total := int(c.resized+c.inProgress+c.deferred+c.infeasible) + c.waiting + c.refused + c.stuck
	reason, message := "", fmt.Sprintf("%d of %d pods have their size", c.resized, total)
	if why != "" {
		message += "; " + why
	}
	switch {
	case c.infeasible > 0:
		reason = corev1.PodReasonInfeasible
	case c.deferred > 0:
		reason = corev1.PodReasonDeferred
	case c.inProgress > 0 || c.waiting > 0:
		reason = "InProgress"
	}
	if reason != "" {
		u.condition(own, m, v1alpha1.ConditionResize, true, reason, message)
	} else {
		u.condition(own, m, v1alpha1.ConditionResize, false, "None", message)
	}
	if a.ID != a.Sizes.ID || a.Outcome == v1alpha1.OutcomeApplied { // pods created later do not undo it
		return
	}
	outcome, was := v1alpha1.OutcomeApplied, a.Outcome
	switch unfit := c.refused + int(c.infeasible) + c.stuck; {
	case c.waiting > 0 || c.inProgress > 0 || c.deferred > 0 || unfit > 0 && c.resized > 0:
		outcome = v1alpha1.OutcomePartly
	case unfit > 0:
		outcome = v1alpha1.OutcomeRefused
	}
	// It was counted before it was tried, so that a kill in between cannot hide it. One that
	// another refusal interrupted, such as a second autoscaler, stays counted.
	n, refused := len(a.Resizes), v1alpha1.OutcomeRefused
	switch isCounted := n > 0 && !a.Resizes[n-1].Time.Before(counted(m.Status.Recommendation, a.Sizes.Time.Time).Time); {
	case outcome == refused && was != refused && n > 0:
		a.Resizes = a.Resizes[:n-1]
	case outcome != refused && was == refused && !isCounted:
		a.Resizes = append(a.Resizes, metav1.NewMicroTime(u.clock.Now()))
	}
	if outcome == v1alpha1.OutcomeRefused && !c.asked {
		u.conclude(m, a, outcome, message) // it is held, which was reported before
		return
	}
	u.end(m, a, outcome, message)
}
