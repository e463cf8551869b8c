package agents

import (
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/ddpg"
)

// NewNetwork returns the agent of a network, which falls back to hpa+vpa while it has no
// opinion.
func NewNetwork(t mpa.Target, network mpa.Agent) *Fallback {
	return &Fallback{First: network, Second: NewPair(t), After: learnedPatience}
}

// NewBounded returns the agent of a network within a band around hpa+vpa.
func NewBounded(t mpa.Target, network mpa.Agent) *Fallback {
	return NewNetwork(t, ddpg.NewBand(t, network, NewPair(t)))
}

// Bounded is the name of the kind of a network within a band.
const Bounded = ddpg.Source + "-band"

// makeNetwork makes the agent of a network's file.
func makeNetwork(t mpa.Target, weights []byte) (mpa.Agent, error) {
	actor, err := ddpg.Parse("network", weights)
	if err != nil {
		return nil, err
	}
	return NewNetwork(t, ddpg.New(t, actor)), nil
}

func makeBounded(t mpa.Target, weights []byte) (mpa.Agent, error) {
	actor, err := ddpg.Parse("network", weights)
	if err != nil {
		return nil, err
	}
	return NewBounded(t, ddpg.New(t, actor)), nil
}
