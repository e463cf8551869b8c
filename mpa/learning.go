package mpa

import (
	"fmt"
	"time"
)

// A LearningPhase says how far a candidate is trusted.
type LearningPhase string

// The phases, in their order.
const (
	// OfflineTraining: the rules act, the candidate is asked beside them.
	OfflineTraining LearningPhase = "OfflineTraining"
	// OnlineTraining: the candidate acts within a band around the capacity that the rules
	// want.
	OnlineTraining LearningPhase = "OnlineTraining"
	// Serving: the candidate acts.
	Serving LearningPhase = "Serving"
)

// LearningPhases returns the phases in their order.
func LearningPhases() []LearningPhase {
	return []LearningPhase{OfflineTraining, OnlineTraining, Serving}
}

// Learning is what a recommendation says of a candidate in its phases.
type Learning struct {
	Phase LearningPhase `json:"phase"`
	// Shadow is the recommendation that does not act: the candidate's, or the rules' where
	// the candidate acts.
	Shadow *Recommendation `json:"shadow,omitempty"`
	// Verdict of this decision; nil = nothing was judged.
	Verdict *Verdict `json:"verdict,omitempty"`
}

// A Verdict compares a candidate with the rules on the load of a window, both simulated.
type Verdict struct {
	Time time.Time `json:"time"`
	// Missing says why nothing could be simulated; then there are no figures.
	Missing string `json:"missing,omitempty"`
	// Rules and Candidate are mean objectives of Runs simulations, lower is better.
	Rules     float64 `json:"rules,omitempty"`
	Candidate float64 `json:"candidate,omitempty"`
	// RulesBroken and CandidateBroken are in how many of the runs the promise was broken.
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
