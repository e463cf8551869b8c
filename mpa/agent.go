package mpa

import (
	"bytes"
	"encoding/json"
	"time"
)

// An Agent recommends how many replicas of what size a workload should have. It may keep
// state: the controller calls it once for each observation, in order of time.
type Agent interface {
	Recommend(o *Observation) Recommendation
}

// A Spec names an agent: which kind, and with which weights.
type Spec struct {
	Name string `json:"name"`
	// Digest of the weights of a learned agent; empty for a rule.
	Digest string `json:"digest,omitempty"`
}

// UnmarshalJSON reads a spec, or the name alone as journals of version 1 have it.
func (s *Spec) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		*s = Spec{}
		return json.Unmarshal(data, &s.Name)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	type plain Spec
	return dec.Decode((*plain)(s))
}

// String is the name, with the digest if there is one.
func (s Spec) String() string {
	if s.Digest == "" {
		return s.Name
	}
	return s.Name + "@" + s.Digest
}

// A Recommendation is an agent's proposal, before any guard.
type Recommendation struct {
	// Replicas wanted; 0 = no opinion.
	Replicas int32 `json:"replicas,omitempty"`
	// Containers are the requests wanted, in the order of the spec's containers;
	// nil = no opinion, as is a resource of 0.
	Containers []Resources `json:"containers,omitempty"`
	// Limit is the number of requests that a pod should work on at once; 0 = no opinion.
	Limit int32 `json:"limit,omitempty"`
	// Source is the agent, or the part of it, that recommends.
	Source string `json:"source"`
	// Reason of the proposal, or of having none, in a few words.
	Reason string `json:"reason"`
	// Learning is set while a candidate passes its phases.
	Learning *Learning `json:"learning,omitempty"`
	// Drift names the property of the workload that an agent has just found changed: its
	// model of it, and perhaps its weights, are to be learned again. Empty = nothing new.
	Drift string `json:"drift,omitempty"`
}

// A Stateful agent writes its state as JSON. An agent of the same [Spec] and
// [Target] that reads it recommends the same from then on.
type Stateful interface {
	Agent
	json.Marshaler
	json.Unmarshaler
}

// A Shifter is an agent that remembers times. When the clock jumps by d, Shift moves all
// of them by d, so that they keep their age.
type Shifter interface {
	Shift(d time.Duration)
}

// Shift moves the times that an agent remembers, if it does.
func Shift(a Agent, d time.Duration) {
	if s, ok := a.(Shifter); ok {
		s.Shift(d)
	}
}
