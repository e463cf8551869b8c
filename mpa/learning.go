package mpa

import (
	"fmt"
	"time"
)

// A LearningPhase is the degree of trust in a candidate.
type LearningPhase string

// The phases, in their order.
const (
	// OfflineTraining: the rules act, the candidate recommends next to them.
	OfflineTraining LearningPhase = "OfflineTraining"
	// OnlineTraining: the candidate acts within a band around the capacity by the rules.
	OnlineTraining LearningPhase = "OnlineTraining"
	// Serving: the candidate acts.
	Serving LearningPhase = "Serving"
)

// LearningPhases returns the phases in their order.
func LearningPhases() []LearningPhase {
	return []LearningPhase{OfflineTraining, OnlineTraining, Serving}
}

// Learning is the part of a recommendation about a candidate in its phases.
type Learning struct {
	Phase LearningPhase `json:"phase"`
	// Shadow is the recommendation that does not act: the candidate's, or the rules' where
	// the candidate acts.
	Shadow *Recommendation `json:"shadow,omitempty"`
	// Verdict of this decision; nil = no judgement.
	Verdict *Verdict `json:"verdict,omitempty"`
}

// A Verdict compares a candidate with the rules on the load of a window, both simulated.
type Verdict struct {
	Time time.Time `json:"time"`
	// Missing is the reason that nothing could be simulated; then there are no figures.
	Missing string `json:"missing,omitempty"`
	// Rules and Candidate are mean objectives of Runs simulations, lower is better.
	Rules     float64 `json:"rules,omitempty"`
	Candidate float64 `json:"candidate,omitempty"`
	// RulesBroken and CandidateBroken count the runs in which the promise was broken.
	RulesBroken     int `json:"rulesBroken,omitempty"`
	CandidateBroken int `json:"candidateBroken,omitempty"`
	Runs            int `json:"runs,omitempty"`
}

// String is the verdict in one clause.
func (v *Verdict) String() string {
	if v.Missing != "" {
		return "not compared: " + v.Missing
	}
	return fmt.Sprintf("objective %.3f, of the rules %.3f; promises broken in %d and %d of %d runs",
		v.Candidate, v.Rules, v.CandidateBroken, v.RulesBroken, v.Runs)
}
