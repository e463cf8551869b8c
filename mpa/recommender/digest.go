package recommender

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// digestOf returns a status without the numbers that change at every decision.
func digestOf(s *v1alpha1.MultidimPodAutoscalerStatus) string {
	var b strings.Builder
	fmt.Fprint(&b, s.ObservedGeneration, s.Phase, s.Summary)
	for _, c := range s.Conditions {
		fmt.Fprint(&b, " ", c.Type, c.Status, c.Reason)
	}
	if r := s.Recommendation; r != nil {
		fmt.Fprint(&b, " ", r.ID)
	}
	if c := s.Concurrency; c != nil {
		fmt.Fprint(&b, " ", c.InForce, c.Limit, c.Windows > 0)
		if c.Trial != nil {
			fmt.Fprint(&b, " ", c.Trial.Time.UnixMicro())
		}
	}
	if l := s.Learning; l != nil {
		fmt.Fprint(&b, " ", l.Phase, l.Changes, l.Judged)
	}
	if t := s.Retraining; t != nil {
		fmt.Fprint(&b, " ", t.Alarm, t.Job, t.Started, t.Ended, t.Outcome, t.Candidate)
	}
	if o := s.Observed; o != nil {
		ratio, _ := strconv.ParseFloat(o.SLORatio, 64)
		fmt.Fprint(&b, " ", o.Replicas, o.Ready, ratio > 1)
	}
	if d := s.Decision; d != nil {
		fmt.Fprint(&b, " ", d.Action, d.Source, d.PolicyDigest, d.Replicas)
		for _, k := range d.Containers {
			fmt.Fprint(&b, " ", k.Name, k.CPU, k.Memory)
		}
		for _, g := range d.Guards {
			name, _, _ := strings.Cut(g, ":")
			fmt.Fprint(&b, " ", name)
		}
	}
	return b.String()
}
