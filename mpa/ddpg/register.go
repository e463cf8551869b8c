package ddpg

import (
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
)

// Bounded is the name of the kind of a network within a band.
const Bounded = Source + "-band"

// A program that links this package can make both kinds by name.
func init() {
	agents.Register(agents.Kind{Name: Source, Model: kind(NewAgent)})
	agents.Register(agents.Kind{Name: Bounded, Model: kind(NewBounded)})
}

// NewAgent returns the agent of a network, which falls back to hpa+vpa while it has no
// opinion.
func NewAgent(t mpa.Target, network mpa.Agent) *agents.Fallback {
	return agents.NewFallback(t, network)
}

// NewBounded returns the agent of a network within a band around hpa+vpa.
func NewBounded(t mpa.Target, network mpa.Agent) *agents.Fallback {
	return agents.NewFallback(t, NewBand(t, network, agents.NewPair(t)))
}

// kind makes agents of a network's file.
func kind(agent func(mpa.Target, mpa.Agent) *agents.Fallback) func(mpa.Target, []byte) (mpa.Agent, error) {
	return func(t mpa.Target, weights []byte) (mpa.Agent, error) {
		actor, err := Parse("network", weights)
		if err != nil {
			return nil, err
		}
		return agent(t, New(t, actor)), nil
	}
}
