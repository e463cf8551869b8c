package recommender

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/collect"
	"github.com/sigma-scheduler/sigma/mpa/knative"
	"github.com/sigma-scheduler/sigma/mpa/target"
)

// knativeService is the Service that an object is about, at the present decision.
type knativeService struct {
	limit  int32  // containerConcurrency; 0 = any number
	canary string // our Revision that gets a part of the requests, or stable if it is tried itself; empty = no trial
	stable string
	since  time.Time
}

// knativeTarget returns a Knative Service with the pods of the Revision that serves. It is read from
// the API server: a cache of a kind that is not there never fills.
func (r *reconciler) knativeTarget(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, s *object) (*target.Workload, *refusal, error) {
	name := o.Spec.ScaleTargetRef.Name
	if o.Spec.SLO != nil && o.Spec.SLO.Latency != nil {
		promised := o.Spec.SLO.Latency.Target.Duration
		if least, most := collect.KnativeLatency(); promised < least || promised > most {
			return nil, refuse("SpecInvalid", "slo.latency.target: %v, want %v to %v: of others the histogram of queue-proxy does not tell", promised, least, most), nil
		}
	}
	u := knative.New(knative.ServiceKind)
	err := r.live.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: name}, u)
	switch {
	case meta.IsNoMatchError(err) || runtime.IsNotRegisteredError(err):
		return nil, refuse("KnativeMissing", "the cluster does not know %s; is Knative Serving installed?", knative.ServiceKind.GroupVersion()), nil
	case apierrors.IsNotFound(err):
		return nil, refuse("TargetMissing", "there is no Service %s of %s, or the cluster does not know the kind", name, v1alpha1.Knative), nil
	case apierrors.IsForbidden(err):
		return nil, refuse("KnativeForbidden", "%v; is the component knative of the autoscaler installed?", err), nil
	case err != nil:
		return nil, nil, err
	case u.GetDeletionTimestamp() != nil:
		return nil, refuse("TargetDeleted", "Service %s is being deleted", name), nil
	}
	v, err := knative.Read(u)
	if err != nil {
		return nil, refuse("TargetInvalid", "Service %s: %v", name, err), nil
	}
	state, err := knative.StateOf(u)
	if err != nil {
		return nil, refuse("TargetInvalid", "Service %s: %v", name, err), nil
	}
	k := knativeService{limit: limitOf(v.Fields), stable: v.Ready.Name}
	if revision, since := state.Measured(); revision == k.stable {
		k.canary, k.since = revision, since // alone, before and after a change of its target
	}
	if state.UnderWay() {
		k.stable, k.limit = state.Stable, limitOf(state.Before)
		if state.Phase == knative.Canary && v.Ready.Name != state.Stable {
			k.canary, k.since = v.Ready.Name, state.Since
		}
	}
	s.knative = k
	if k.stable == "" {
		return nil, refuse("NoRevision", "Service %s has no Revision that was ready", name), nil
	}
	w := &target.Workload{Object: u, Replicas: 1, Selector: labels.SelectorFromSet(labels.Set{knative.RevisionLabel: k.stable}), Template: templateOf(u)}
	pods, err := w.IndexedPods(ctx, r.collector.Client)
	if err != nil {
		return nil, nil, err
	}
	w.Replicas = max(1, int32(len(pods)))
	if n, ok := limitOfPods(pods); ok {
		s.knative.limit = n // the template may be that of a Revision that is not ready
	}
	if o.Spec.Mode == v1alpha1.ModeOff {
		return w, nil, nil
	}
	no, err := r.otherMPA(ctx, o)
	return w, no, err
}

func limitOf(f knative.Fields) int32 {
	if f.Limit == nil {
		return 0
	}
	return int32(min(max(0, *f.Limit), math.MaxInt32))
}

// limitOfPods returns the limit that the queue-proxies of a Revision have.
func limitOfPods(pods []corev1.Pod) (int32, bool) {
	for i := range pods {
		for _, c := range pods[i].Spec.Containers {
			if c.Name != "queue-proxy" {
				continue
			}
			for _, e := range c.Env {
				if n, err := strconv.ParseInt(e.Value, 10, 32); e.Name == "CONTAINER_CONCURRENCY" && err == nil && n >= 0 {
					return int32(n), true
				}
			}
		}
	}
	return 0, false
}

// templateOf returns the names of the containers of a Service. One without a name has Knative's default.
func templateOf(u *unstructured.Unstructured) *corev1.PodTemplateSpec {
	t := &corev1.PodTemplateSpec{}
	list, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
	for _, c := range list {
		name := "user-container"
		if m, _ := c.(map[string]any); m["name"] != nil {
			name = fmt.Sprint(m["name"])
		}
		t.Spec.Containers = append(t.Spec.Containers, corev1.Container{Name: name})
	}
	return t
}

// anyNumber is the limit of pods without one: to the learner, a limit that never binds.
const anyNumber = knative.MaxLimit

// setLimit enters the Service's limit in an observation, as queue-proxy does not export it.
func (k *knativeService) setLimit(ob *mpa.Observation) {
	if ob.Gates.Limit = k.limit; k.limit == 0 {
		ob.Gates.Limit = anyNumber
	}
}

// trialGap is the longest time between two measurements that the sums bridge; a longer one counts
// for neither.
const trialGap = time.Minute

// trial adds the present load of both Revisions to the sums. They are in the status alone, so that
// the next process continues them; a lost write loses its part.
func (r *reconciler) trial(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, s *object, ob *mpa.Observation) (*v1alpha1.Trial, []collect.Problem, error) {
	k := &s.knative
	if k.canary == "" || o.Spec.SLO == nil || o.Spec.SLO.Latency == nil {
		return nil, nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	var t *v1alpha1.Trial
	if c := o.Status.Concurrency; c != nil {
		t = c.Trial.DeepCopy()
	}
	arms := []string{k.stable, k.canary}
	served := make([]collect.Served, len(arms))
	ready := make([]float64, len(arms))
	oldest := ob.Time
	for i, revision := range arms {
		if i > 0 && revision == arms[0] {
			served[i], ready[i] = served[0], ready[0]
			continue
		}
		list := &corev1.PodList{}
		if err := r.collector.Client.List(ctx, list, client.InNamespace(o.Namespace), client.MatchingLabels{knative.RevisionLabel: revision}, client.UnsafeDisableDeepCopy); err != nil {
			return t, nil, err
		}
		var names []string
		for j := range list.Items {
			p := &list.Items[j]
			names = append(names, p.Name)
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil {
					ready[i]++
				}
			}
		}
		if len(names) == 0 {
			return t, []collect.Problem{{Source: collect.Gates, Reason: "NoPods", Message: fmt.Sprintf("Revision %s has no pods", revision)}}, nil
		}
		var problems []collect.Problem
		var err error
		if served[i], problems, err = r.collector.Prometheus.Served(ctx, o, revision, names); err != nil || len(problems) > 0 {
			return t, problems, err
		}
		for _, m := range []mpa.Metric{served[i].Requests, served[i].Lost, served[i].Late} {
			if !m.Known(ob.Time, collect.MaxAge(o)) {
				return t, []collect.Problem{{Source: collect.Gates, Reason: "Stale", Message: fmt.Sprintf("Revision %s: the newest sample is of %s", revision, m.Time.UTC().Format(time.RFC3339))}}, nil
			}
			if m.Time.Before(oldest) {
				oldest = m.Time
			}
		}
	}
	// Until then the means include time before the trial. They show requests that are lost, and are no
	// comparison.
	whole := k.since.Add(collect.GateWindow)
	if t == nil || t.Canary.Revision != k.canary || t.Stable.Revision != k.stable || t.Since.Time.Before(k.since) || t.Since.Time.Before(whole) && !oldest.Before(whole) {
		return &v1alpha1.Trial{Since: micro(oldest), Time: micro(oldest), Stable: v1alpha1.Arm{Revision: k.stable}, Canary: v1alpha1.Arm{Revision: k.canary}}, nil, nil
	}
	gap := oldest.Sub(t.Time.Time)
	if gap <= 0 {
		return t, nil, nil // the same samples again
	}
	t.Time = micro(oldest)
	if gap > max(trialGap, 2*r.options.Interval) {
		t.Since = micro(t.Since.Add(gap)) // from Since to Time is measured time only
		return t, nil, nil
	}
	for i, a := range []*v1alpha1.Arm{&t.Stable, &t.Canary} {
		seconds := gap.Seconds()
		a.Requests += served[i].Requests.Value * seconds
		a.Lost += served[i].Lost.Value * seconds
		a.Late += served[i].Late.Value * seconds
		a.PodSeconds += ready[i] * seconds
	}
	return t, nil, nil
}

// setLearned sets whether there is a learned setting for a Knative Service.
func (s *journaledState) setLearned(o *v1alpha1.MultidimPodAutoscaler, next *v1alpha1.MultidimPodAutoscalerStatus) {
	limited := s.session.Limited()
	if limited == nil { // the API server admits no such object today
		set(o, next, v1alpha1.ConditionRecommendation, metav1.ConditionFalse, "NothingLearned", "concurrency is missing")
		return
	}
	if known, ok := limited.Limits.Known(); !ok || !(known.PodRate > 0) {
		set(o, next, v1alpha1.ConditionRecommendation, metav1.ConditionFalse, "NothingLearned", "%s", limited.Said().Reason)
		return
	}
	set(o, next, v1alpha1.ConditionRecommendation, metav1.ConditionTrue, "Learned", "%s", limited.Said().Reason)
}
