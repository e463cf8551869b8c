package explain

import (
	"cmp"
	"strconv"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// A sizingLearning is the phase of a policy, and the recommendation of the agent that does
// not act.
type sizingLearning struct {
	Phase string `json:"phase"`
	// Judged is the last verdict; empty = no verdict yet.
	Judged string `json:"judged,omitempty"`
	// Source is the agent that does not act, Recommended its recommendation and Because the reason.
	Source      string       `json:"source,omitempty"`
	Recommended *sizingState `json:"recommended,omitempty"`
	Because     string       `json:"because,omitempty"`
}

// learningLogged explains the phases at a decision; last is the last verdict up to it.
func learningLogged(t *mpa.Target, l *mpa.Learning, last *mpa.Verdict) *sizingLearning {
	if l == nil {
		return nil
	}
	out := &sizingLearning{Phase: string(l.Phase)}
	if last != nil {
		out.Judged = last.String()
	}
	if r := l.Shadow; r != nil {
		out.Source, out.Recommended, out.Because = r.Source, stateOf(t, r.Replicas, r.Containers), r.Reason
	}
	return out
}

// learningInCluster explains the phases in a status.
func learningInCluster(l *v1alpha1.LearningStatus) *sizingLearning {
	if l == nil {
		return nil
	}
	out := &sizingLearning{Phase: l.Phase}
	if l.Judged != nil {
		v := mpa.Verdict{Missing: l.Missing, RulesBroken: int(l.RulesBroken), CandidateBroken: int(l.PolicyBroken), Runs: int(l.Runs)}
		v.Rules, _ = strconv.ParseFloat(l.Rules, 64) // absent = not compared
		v.Candidate, _ = strconv.ParseFloat(l.Policy, 64)
		out.Judged = v.String()
	}
	if r := l.Shadow; r != nil {
		out.Source, out.Recommended, out.Because = r.Source, &sizingState{Replicas: r.Replicas, Containers: sized(r.Containers)}, r.Reason
	}
	return out
}

// print writes the lines of the phases.
func (l *sizingLearning) print(line func(name, format string, args ...any)) {
	if l == nil {
		return
	}
	judged := l.Judged
	judged = cmp.Or(judged, "not judged yet")
	line("learning", "%s; %s", l.Phase, judged)
	if l.Source != "" {
		line("shadow", "%s: %s", l.Source, l.Recommended)
		line("because", "%s", l.Because)
	}
}
