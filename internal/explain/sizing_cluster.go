package explain

import (
	"fmt"
	"strings"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/journal"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// SizingInCluster explains the last decision in the status of an object.
func SizingInCluster(o *v1alpha1.MultidimPodAutoscaler) (*Sizing, error) {
	s := &o.Status
	e := &Sizing{
		Object: o.Namespace + "/" + o.Name, From: "cluster", Agent: o.Spec.Recommender.Algorithm, Off: o.Spec.Mode == v1alpha1.ModeOff,
		Guards: []string{}, Outcomes: []journal.Outcome{}, Action: "hold",
	}
	for _, c := range s.Conditions {
		bad := c.Status == "True"
		switch c.Type {
		case v1alpha1.ConditionRecommendation, v1alpha1.ConditionMetrics, v1alpha1.ConditionActive, v1alpha1.ConditionAccepted, v1alpha1.ConditionAble:
			bad = c.Status != "True"
		}
		if bad {
			e.Conditions = append(e.Conditions, fmt.Sprintf("%s=%s, %s: %s", c.Type, c.Status, c.Reason, c.Message))
		}
	}
	if ob := s.Observed; ob != nil {
		e.Time = ob.Time.Time // of the decision, where there is one
		e.Observed.Replicas, e.Observed.Ready = ob.Replicas, ob.Ready
		if ob.Rate != nil {
			v := ob.Rate.AsApproximateFloat64()
			e.Observed.Rate = &v
		}
		if ob.Throughput != nil {
			v := ob.Throughput.AsApproximateFloat64()
			e.Observed.Throughput = &v
		}
		if ob.Latency != nil {
			v := ob.Latency.Seconds()
			e.Observed.Latency = &v
		}
	}
	if slo := o.Spec.SLO; slo != nil && slo.Latency != nil {
		e.Observed.Percentile, e.Observed.Promised = slo.Latency.Percentile, slo.Latency.Target.Seconds()
	}
	d, last := s.Decision, s.Recommendation
	if d == nil {
		if len(e.Conditions) == 0 {
			return nil, fmt.Errorf("%s: nothing was decided yet: does a recommender named %q run?", e.Object, o.Spec.Recommender.Name)
		}
		e.Reason = "nothing is decided"
		return e, nil
	}
	e.Time, e.Source, e.Reason = d.Time.Time, d.Source, d.Reason
	e.Learning = learningInCluster(s.Learning)
	e.Agent = mpa.Spec{Name: e.Agent, Digest: d.PolicyDigest}.String()
	e.Guards = append(e.Guards, d.Guards...)
	e.Wanted = &sizingState{Replicas: d.Replicas, Containers: sized(d.Containers)}
	if d.Action != "Hold" {
		e.Action = strings.ToLower(d.Action)
	}
	if last != nil {
		to := &sizingState{Containers: sized(last.Containers)}
		switch last.Change {
		case v1alpha1.ChangeReplicas:
			to = &sizingState{Replicas: last.Replicas}
		case v1alpha1.ChangeLimit:
			to = &sizingState{Limit: last.Limit}
		case v1alpha1.ChangeRequests:
		}
		if e.Action == "hold" {
			e.Last = &sizingChange{last.Time.Time, to, last.Reason}
		} else {
			e.To = to
		}
		if c := s.Actuation; c != nil && c.ID == last.ID {
			e.Outcomes = append(e.Outcomes, journal.Outcome{
				Time: c.Time.Time, ID: c.ID, Decided: last.Time.Time, Result: string(c.Outcome), Reason: c.Message,
			})
		}
	}
	return e, nil
}

func sized(list []v1alpha1.ContainerRequests) (out []sizedContainer) {
	for _, k := range list {
		s := sizedContainer{Name: k.Name}
		if k.CPU != nil {
			s.CPU = podspec.Milli(k.CPU)
		}
		if k.Memory != nil {
			s.Memory = podspec.Value(k.Memory)
		}
		out = append(out, s)
	}
	return out
}
