package agents

import (
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/learned"
)

// learnedPatience is the time without an opinion of the learned agent after which hpa+vpa acts.
const learnedPatience = 3 * time.Minute

// NewLearned returns the agent of a policy, which falls back to hpa+vpa while it has no
// opinion.
func NewLearned(t mpa.Target, v learned.Values) *Fallback {
	return &Fallback{First: learned.New(t, v), Second: NewPair(t), After: learnedPatience}
}

// makeLearned makes the agent of a policy file.
func makeLearned(t mpa.Target, weights []byte) (mpa.Agent, error) {
	p, err := learned.Parse("policy", weights)
	if err != nil {
		return nil, err
	}
	return NewLearned(t, p.Values), nil
}
