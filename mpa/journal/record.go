package journal

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/phases"
)

// Format is the version of the records that are written. Version 1, which names agents
// without a digest, is read as well, and so is version 2: in both the size of the newest
// pod was the present one.
const Format = 3

// A Record is a line: a kind, and the part of that kind.
type Record struct {
	Kind     string   `json:"kind"`
	Start    *Start   `json:"start,omitempty"`
	Decision *Decided `json:"decision,omitempty"`
	Outcome  *Outcome `json:"outcome,omitempty"`
}

// The kinds of records.
const (
	KindStart    = "start"
	KindDecision = "decision"
	KindOutcome  = "outcome"
)

// A Start begins a file, and follows every change of the setup or the memory.
type Start struct {
	Format int `json:"format"`
	Setup
	// Memory of the guards at the start.
	Memory mpa.Memory `json:"memory"`
	// Continues: the agent continues with State or, without one, with its state in this file
	// so far. Otherwise it begins without memory.
	Continues bool            `json:"continues,omitempty"`
	State     json.RawMessage `json:"state,omitempty"`
	// Limits is the state of the learner of a pod's limit if the setup has one and the agent
	// does not continue without a State; nil = no state.
	Limits json.RawMessage `json:"limits,omitempty"`
}

// A Setup is the agent that decides, its guards, and its workload.
type Setup struct {
	Object     string     `json:"object"` // namespace/name
	Generation int64      `json:"generation,omitempty"`
	Target     mpa.Target `json:"target"`
	Agent      mpa.Spec   `json:"agent"`
	Fallback   *Fallback  `json:"fallback,omitempty"`
	Guards     mpa.Guards `json:"guards"`
	// Learning: the agent is a candidate in its phases, the fallback's or hpa+vpa the rules.
	Learning *phases.Settings `json:"learning,omitempty"`
	// Concurrency configures the learner of a pod's limit next to the agent; nil = no learner.
	// The target's limit allows or forbids changes of it.
	Concurrency *agents.LimitSpec `json:"concurrency,omitempty"`
}

// A Fallback recommends when the agent has had no opinion for After.
type Fallback struct {
	Agent mpa.Spec      `json:"agent"`
	After time.Duration `json:"afterNanoseconds"`
}

// Decided is an observation and its decision.
type Decided struct {
	// ID of the decision's action; 0 = no action.
	ID          int64           `json:"id,omitempty"`
	Observation mpa.Observation `json:"observation"`
	Decision    mpa.Decision    `json:"decision"`
}

// An Outcome is the result of an action.
type Outcome struct {
	Time time.Time `json:"time"`
	// ID of the action, if it had one, and the time of the decision.
	ID      int64     `json:"id,omitempty"`
	Decided time.Time `json:"decided"`
	// Result: Applied, Partly, Refused, Expired or Superseded, with the Reason.
	Result string `json:"result"`
	Reason string `json:"reason,omitempty"`
}

// NewAgent makes the setup's agent, without memory, from the weights that are loaded. The
// setup's fallback takes the place of one that the agent has of its own.
func (s *Setup) NewAgent(loaded agents.Weights) (mpa.Agent, error) {
	agent, err := agents.Make(s.Agent, s.Target, loaded)
	if err != nil || s.Fallback == nil && s.Learning == nil {
		return agent, err
	}
	rules, after := s.rules()
	second, err := agents.Make(rules, s.Target, loaded)
	switch {
	case err != nil:
		return nil, fmt.Errorf("fallback: %w", err)
	case s.Learning == nil:
		return &agents.Fallback{First: alone(agent), Second: second, After: after}, nil
	}
	again := func(spec mpa.Spec) func(mpa.Target) mpa.Agent {
		own := agents.Weights{spec.Digest: loaded[spec.Digest]} // which may be unloaded later
		return func(t mpa.Target) mpa.Agent {
			a, err := agents.Make(spec, t, own)
			if err != nil {
				panic(err) // it has just been made
			}
			return alone(a)
		}
	}
	return phases.New(s.Target, *s.Learning, s.Guards, phases.Makers{Rules: again(rules), Candidate: again(s.Agent), After: after})
}

// NewLimits makes the learner of a pod's limit, without memory; nil = the setup has none.
func (s *Setup) NewLimits() (*agents.Limits, error) {
	if s.Concurrency == nil {
		return nil, nil
	}
	l, err := agents.NewLimits(s.Target, *s.Concurrency)
	if err != nil {
		return nil, fmt.Errorf("concurrency: %w", err)
	}
	return l, nil
}

// alone returns an agent without the fallback that it has of its own.
func alone(a mpa.Agent) mpa.Agent {
	if own, ok := a.(*agents.Fallback); ok {
		return own.First
	}
	return a
}

// rules returns the agent that acts in the place of the setup's, and the time without an
// opinion after which it does.
func (s *Setup) rules() (mpa.Spec, time.Duration) {
	if s.Fallback != nil {
		return s.Fallback.Agent, s.Fallback.After
	}
	return mpa.Spec{Name: "hpa+vpa"}, 3 * time.Minute
}

// same reports whether two setups are equal but for the generation.
func (s *Setup) same(t *Setup) bool {
	a, b := *s, *t
	a.Generation, b.Generation = 0, 0
	return text(a) == text(b) && a.Target.Newest == b.Target.Newest
}

// text returns a value as JSON.
func text(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
