package recommender

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/internal/bounded"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/journal"
	"github.com/sigma-scheduler/sigma/mpa/phases"
)

// phasesOf returns the settings of an object's phases. A policy that is deleted, or replaced
// by one that is not accepted, is withdrawn.
func phasesOf(o *v1alpha1.MultidimPodAutoscaler, withdrawn bool) *phases.Settings {
	s := phases.DefaultSettings()
	s.Withdrawn = withdrawn
	if l := o.Spec.Recommender.Learning; l != nil {
		if l.Begin != "" {
			s.Begin = mpa.LearningPhase(l.Begin)
		}
		if l.Window != nil {
			s.Window = l.Window.Duration
		}
	}
	return &s
}

// sameAgents reports whether the agents of two setups decide alike.
func sameAgents(a, b *journal.Setup) bool {
	if a.Learning == nil || b.Learning == nil {
		return a.Agent == b.Agent && a.Learning == b.Learning
	}
	return a.Agent == b.Agent && *a.Learning == *b.Learning
}

// progress returns where the policy is; nil = the algorithm has no phases.
func (s *journaledState) progress() *phases.Progress {
	if s.session == nil {
		return nil
	}
	if a, ok := s.session.Agent().(*phases.Agent); ok {
		p := a.Progress()
		return &p
	}
	return nil
}

// catchUp moves a policy to the phase in the status where another recommender has moved it,
// or where no journal has it.
func (s *journaledState) catchUp(o *v1alpha1.MultidimPodAutoscaler, begun bool) error {
	l, p := o.Status.Learning, s.progress()
	switch {
	case l == nil || p == nil || l.PolicyDigest != s.session.Setup().Agent.Digest:
		return nil
	case begun && !s.session.Resumed && o.Status.ObservedGeneration != o.Generation: // the spec may begin in another phase
		p.Changes = l.Changes + 1
	case begun && !s.session.Resumed || l.Changes > p.Changes:
		*p = progressOf(l)
	default:
		return nil
	}
	return s.session.Place(*p)
}

// progressOf is the inverse of learning.
func progressOf(l *v1alpha1.LearningStatus) phases.Progress {
	p := phases.Progress{Phase: mpa.LearningPhase(l.Phase), Changes: l.Changes}
	if l.Since != nil {
		p.Since = l.Since.UTC()
	}
	if l.Judged != nil {
		p.Judged = l.Judged.UTC()
		v := mpa.Verdict{Time: p.Judged, Missing: l.Missing, RulesBroken: int(l.RulesBroken), CandidateBroken: int(l.PolicyBroken), Runs: int(l.Runs)}
		v.Rules, _ = strconv.ParseFloat(l.Rules, 64) // empty = not compared
		v.Candidate, _ = strconv.ParseFloat(l.Policy, 64)
		p.Verdict = &v
	}
	return p
}

// learning returns the status of a policy in its phases; nil = no policy in phases.
func (s *journaledState) learning(d *mpa.Decision) *v1alpha1.LearningStatus {
	p := s.progress()
	if p == nil {
		return nil
	}
	setup := s.session.Setup()
	l := &v1alpha1.LearningStatus{
		Phase: string(p.Phase), Changes: p.Changes, PolicyDigest: setup.Agent.Digest, Window: &metav1.Duration{Duration: setup.Learning.Window},
	}
	if !p.Since.IsZero() {
		l.Since = new(micro(p.Since))
	}
	if v := p.Verdict; v != nil {
		l.Judged, l.Missing = new(micro(v.Time)), bounded.Text(v.Missing)
		if v.Missing == "" {
			figure := func(x float64) string { return strconv.FormatFloat(x, 'f', 3, 64) }
			l.Rules, l.Policy = figure(v.Rules), figure(v.Candidate)
			l.RulesBroken, l.PolicyBroken, l.Runs = int32(v.RulesBroken), int32(v.CandidateBroken), int32(v.Runs)
		}
	}
	if d.Recommended.Learning != nil && d.Recommended.Learning.Shadow != nil {
		r := d.Recommended.Learning.Shadow
		l.Shadow = &v1alpha1.Shadow{Source: r.Source, Replicas: r.Replicas, Containers: sizes(&setup.Target, r.Containers), Reason: bounded.Text(r.Reason)}
	}
	return l
}

// announce publishes a change of the phase.
func (r *reconciler) announce(o *v1alpha1.MultidimPodAutoscaler, before, after *phases.Progress) {
	if before == nil || after == nil || before.Phase == after.Phase {
		return
	}
	why := "its ScalingPolicy is gone"
	if v := after.Verdict; v != nil && v.Time.Equal(after.Since) {
		why = v.String()
	}
	r.events.Eventf(o, corev1.EventTypeNormal, "LearningPhase", "%s after %s: %s", after.Phase, before.Phase, why)
}

// fallbackOf returns the fallback of an agent, and the time without an opinion after which it
// acts.
func fallbackOf(s *journal.Setup) (name string, after time.Duration) {
	if s.Fallback != nil {
		return s.Fallback.Agent.String(), s.Fallback.After
	}
	return defaultFallback, 3 * time.Minute
}
