package ddpg

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/internal/learn/nn"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/guard"
)

// Source of recommendations.
const Source = "ddpg"

// Parse reads the file of a network, as [nn.MLP.Encode] writes it. It refuses one of other
// sizes; its errors begin with the file's name and name the field.
func Parse(name string, data []byte) (*nn.MLP[float32], error) {
	return nn.DecodeMLP[float32](name, data, StateSize, ActionSize)
}

// A Network is an agent that acts by a trained network. It runs the network every [Step], and
// repeats the recommendation in between.
type Network struct {
	target mpa.Target
	actor  *nn.MLPPass[float32]
	in     nn.Matrix[float32]
	s      memory
}

// memory is the state of an agent.
type memory struct {
	First start `json:"first"`
	// Next is the time of the next action, Rate that of the last action, Last its
	// recommendation.
	Next time.Time          `json:"next,omitzero"`
	Rate float64            `json:"rate,omitempty"`
	Last mpa.Recommendation `json:"last"`
}

// New returns the agent of a network. Inputs beyond the state are constants, as an
// embedding of the workload; a network that reads another number of them is a bug.
func New(t mpa.Target, actor *nn.MLP[float32], constants ...float32) *Network {
	n := &Network{target: t, actor: actor.Pass(1), in: nn.NewMatrix[float32](1, StateSize+len(constants))}
	copy(n.in.Data[StateSize:], constants)
	return n
}

// Recommend implements [mpa.Agent].
func (n *Network) Recommend(o *mpa.Observation) mpa.Recommendation {
	v, why := n.s.look(o, &n.target)
	if why != "" {
		return mpa.Recommendation{Source: Source, Reason: why}
	}
	if v != nil {
		n.s.see(v, n.in.Data)
		n.s.Last = n.s.First.size(n.actor.Forward(n.in).Data, &n.target)
		n.s.Last.Source, n.s.Last.Reason = Source, "the network's action"
	}
	return n.s.repeat()
}

// look returns the view if it is time to act, nil if it is not, and the reason that it cannot act.
func (m *memory) look(o *mpa.Observation, t *mpa.Target) (v *view, why string) {
	requests := o.Requests(t)
	switch {
	case requests == nil:
		return nil, "no pod to tell the present requests from"
	case t.SLO.Latency == 0:
		return nil, "no latency is promised"
	}
	if m.First.Requests == nil {
		m.First = start{max(1, o.Replicas), slices.Clone(requests)}
	}
	if o.Time.Before(m.Next) {
		return nil, ""
	}
	m.Next = o.Time.Add(Step)
	now := m.First.look(o, t, requests)
	return &now, ""
}

// see writes the state of a view, and remembers its rate.
func (m *memory) see(v *view, state []float32) {
	v.state(m.Rate, state)
	m.Rate = v.rate
}

// repeat returns the last recommendation; the caller may keep it.
func (m *memory) repeat() mpa.Recommendation {
	r := m.Last
	r.Containers = slices.Clone(r.Containers)
	return r
}

// Shift implements [mpa.Shifter].
func (n *Network) Shift(d time.Duration) { n.s.Next = guard.Moved(n.s.Next, d) }

// MarshalJSON implements [mpa.Stateful].
func (n *Network) MarshalJSON() ([]byte, error) { return json.Marshal(n.s) }

// UnmarshalJSON implements [mpa.Stateful].
func (n *Network) UnmarshalJSON(data []byte) error {
	var s memory
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	for what, list := range map[string][]mpa.Resources{"first.requests": s.First.Requests, "last.containers": s.Last.Containers} {
		if list != nil && len(list) != len(n.target.Containers) {
			return fmt.Errorf("ddpg: %s: %d containers, want %d", what, len(list), len(n.target.Containers))
		}
	}
	n.s = s
	return nil
}
