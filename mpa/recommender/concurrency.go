package recommender

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/capacity"
)

// learnCapacity tells the learner of an object what was observed, and returns what it knows;
// nil = the spec does not ask. What it learned is lost at a restart, and when the spec
// changes or the clock goes back.
func (s *object) learnCapacity(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, ob *mpa.Observation) *v1alpha1.ConcurrencyStatus {
	c := o.Spec.Concurrency
	if c == nil {
		s.capacity = nil
		return nil
	}
	if s.capacity == nil || ob.Time.Before(s.seen) {
		target := s.session.Setup().Target
		target.Limit = mpa.Range{Min: c.Min, Max: c.Max}
		settings := capacity.DefaultSettings()
		settings.Min, settings.Max, settings.Initial = int(c.Min), int(c.Max), int(c.Initial)
		var err error
		if s.capacity, err = agents.NewCapacityBy(target, c.Learner, settings); err != nil {
			// The API server lets no such spec pass.
			log.FromContext(ctx).Error(err, "Cannot learn what a pod takes")
			return &v1alpha1.ConcurrencyStatus{Reason: v1alpha1.Text(err.Error())}
		}
	}
	s.seen = ob.Time
	said := s.capacity.Recommend(ob)
	out := &v1alpha1.ConcurrencyStatus{InForce: ob.Gates.Limit, Limit: said.Limit, Reason: v1alpha1.Text(said.Reason)}
	known, ok := s.capacity.Known()
	if !ok {
		return out
	}
	out.Windows = int32(known.Windows)
	if known.PodRate > 0 {
		out.RatePerPod = number(mpa.Metric{Value: known.PodRate})
	}
	if known.Demand.Value > 0 {
		out.Demand, out.Wait = durations(known.Demand), durations(known.Wait)
	}
	return out
}

func durations(i capacity.Interval) *v1alpha1.DurationRange {
	of := func(seconds float64) metav1.Duration {
		return metav1.Duration{Duration: time.Duration(min(max(seconds, 0), 1e6) * float64(time.Second)).Round(time.Microsecond)}
	}
	return &v1alpha1.DurationRange{Value: of(i.Value), Low: of(i.Low), High: of(i.High)}
}
