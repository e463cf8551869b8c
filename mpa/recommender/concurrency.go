package recommender

import (
	"cmp"
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/internal/bounded"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/capacity"
	"github.com/sigma-scheduler/sigma/mpa/sidecar"
	"github.com/sigma-scheduler/sigma/mpa/target"
)

// limitSpecOf returns how the limit of an object's pods is learned; nil = it is not.
func limitSpecOf(o *v1alpha1.MultidimPodAutoscaler) *agents.LimitSpec {
	c := o.Spec.Concurrency
	if c == nil {
		return nil
	}
	return &agents.LimitSpec{Learner: c.Learner, Min: c.Min, Max: c.Max, Initial: c.Initial, MemoryShare: c.MemoryShare}
}

// limitEnded returns the reason that the updater writes no limit any more; empty = it does.
func limitEnded(o *v1alpha1.MultidimPodAutoscaler) string {
	if a := o.Status.Actuation; a != nil && a.Limit != nil {
		return a.Limit.Ended
	}
	return ""
}

// concurrency returns the knowledge of a pod after a decision; nil = the spec does not
// request it.
func (s *object) concurrency(o *v1alpha1.MultidimPodAutoscaler, ob *mpa.Observation) *v1alpha1.ConcurrencyStatus {
	limited := s.journaled.session.Limited()
	if limited == nil {
		return nil
	}
	said := limited.Said()
	inForce := ob.Gates.Limit
	if o.Spec.ScaleTargetRef.Knative() {
		inForce = s.knative.limit
	}
	out := &v1alpha1.ConcurrencyStatus{InForce: inForce, Limit: said.Limit, Reason: bounded.Text(said.Reason)}
	if why := cmp.Or(limitEnded(o), s.withheld); why != "" && o.Spec.Concurrency.Mode == v1alpha1.ConcurrencyApply {
		out.Reason = bounded.Text("not applied: " + why + "; " + said.Reason)
	}
	for _, w := range limited.Limits.Worse() {
		out.Worse = append(out.Worse, v1alpha1.WorseLimit{Time: micro(w.Time), From: w.From, Limit: w.Limit, Demand: duration(w.Demand), Reason: bounded.Text(w.Reason)})
	}
	known, ok := limited.Limits.Known()
	if !ok {
		return out
	}
	out.Windows = int32(known.Windows)
	if known.PodRate > 0 {
		out.RatePerPod = number(mpa.Metric{Value: known.PodRate})
	}
	if o.Spec.Concurrency.Mode != v1alpha1.ConcurrencyObserve {
		out.Replicas = said.Replicas
	}
	if known.Demand.Value > 0 {
		out.Demand, out.Wait = durations(known.Demand), durations(known.Wait)
	}
	return out
}

// rememberWorse takes the limits that were taken back over from the status where no journal has
// them.
func (s *journaledState) rememberWorse(o *v1alpha1.MultidimPodAutoscaler) error {
	limited, c := s.session.Limited(), o.Status.Concurrency
	if limited == nil || c == nil || len(c.Worse) == 0 || len(limited.Limits.Worse()) > 0 {
		return nil
	}
	var list []agents.WorseLimit
	for _, w := range c.Worse {
		l := agents.WorseLimit{Time: w.Time.UTC(), From: w.From, Limit: w.Limit, Reason: w.Reason}
		if w.Demand != nil {
			l.Demand = w.Demand.Seconds()
		}
		list = append(list, l)
	}
	return s.session.RememberWorse(list)
}

// announceWorse publishes the limits that were taken back after a time.
func (r *reconciler) announceWorse(o *v1alpha1.MultidimPodAutoscaler, s *object, last time.Time) {
	limited := s.journaled.session.Limited()
	if limited == nil {
		return
	}
	for _, w := range limited.Limits.Worse() {
		if w.Time.After(last) {
			r.events.Eventf(o, corev1.EventTypeWarning, "LimitWorse", "%d requests at once, not %d: %s", w.From, w.Limit, w.Reason)
		}
	}
}

// lastWorse returns when a limit was taken back last.
func (s *journaledState) lastWorse() (last time.Time) {
	if s.session != nil && s.session.Limited() != nil {
		for _, w := range s.session.Limited().Limits.Worse() {
			last = w.Time
		}
	}
	return last
}

func duration(seconds float64) *metav1.Duration {
	if !(seconds > 0) {
		return nil
	}
	return new(rounded(seconds))
}

func rounded(seconds float64) metav1.Duration {
	return metav1.Duration{Duration: time.Duration(min(max(seconds, 0), 1e6) * float64(time.Second)).Round(time.Microsecond)}
}

func durations(i capacity.Interval) *v1alpha1.DurationRange {
	return &v1alpha1.DurationRange{Value: rounded(i.Value), Low: rounded(i.Low), High: rounded(i.High)}
}

// withhold checks whether the limit of an object may be applied; a new reason against it is an event.
func (r *reconciler) withhold(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, s *object, w *target.Workload) error {
	before := s.withheld
	why, err := r.oneService(ctx, o, w)
	if err != nil {
		return err
	}
	if s.withheld = why; why != "" && why != before {
		r.events.Eventf(o, corev1.EventTypeWarning, "LimitWithheld", "no limit is applied: %s", why)
	}
	return nil
}

// leaveOutGates drops the measurements of gates while some of the pods that should have one take requests without:
// the sums are of some pods, and would be taken for those of all. The fallback decides meanwhile, and nothing is
// learned.
func (r *reconciler) leaveOutGates(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, w *target.Workload, ob *mpa.Observation) error {
	if o.Spec.Concurrency == nil || o.Spec.Concurrency.Pod != v1alpha1.PodSidecar {
		return nil
	}
	pods, err := w.IndexedPods(ctx, r.collector.Client)
	if err != nil {
		return err
	}
	all := true
	for i := range pods {
		all = all && (pods[i].DeletionTimestamp != nil || sidecar.Has(&pods[i]))
	}
	if all {
		return nil
	}
	ob.Gates = mpa.Gates{}
	p := o.Spec.Metrics.Prometheus
	if p == nil || p.Queries.Rate == "" {
		ob.Rate = mpa.Metric{}
	}
	if p == nil || p.Queries.Throughput == "" {
		ob.Throughput = mpa.Metric{}
	}
	return nil
}
