package agents

import (
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/learned"
)

// NewLearned returns the agent of a policy, which falls back to hpa+vpa while it has no
// opinion.
func NewLearned(t mpa.Target, v learned.Values) *Fallback {
	return NewFallback(t, learned.New(t, v))
}

// NewFallback returns an agent that acts by a learned one, and by hpa+vpa once the learned
// one has had no opinion for 3 minutes.
func NewFallback(t mpa.Target, first mpa.Agent) *Fallback {
	return &Fallback{First: first, Second: NewPair(t), After: 3 * time.Minute}
}

// makeLearned makes the agent of a policy file.
func makeLearned(t mpa.Target, weights []byte) (mpa.Agent, error) {
	p, err := learned.Parse("policy", weights)
	if err != nil {
		return nil, err
	}
	return NewLearned(t, p.Values), nil
}
