package main

import (
	"errors"
	"fmt"
	"net/netip"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/flow/follow"
	"github.com/sigma-scheduler/sigma/flow/node"
)

// linkShare is the share of its nominal rate that a link sends if no rate is given: packets have to wait here.
const linkShare = .95

// A kernel is the node's, for policies.
type kernel struct {
	options node.OrderOptions // except those that the policy sets
	given   bool              // the rate of the options was given, and is not that of the link
}

var _ follow.Kernel = &kernel{}

// Order turns the order on, or changes it.
func (k *kernel) Order(s follow.Settings) (uint64, error) {
	o := k.options
	o.Thresholds, o.Floor, o.DSCP, o.Scope = s.Thresholds, s.Floor, s.DSCP, s.Scope
	switch {
	case s.Rate > 0:
		o.Rate = s.Rate
	case !k.given:
		o.Rate *= linkShare
	}
	if o.Rate == 0 {
		return 0, &follow.Refused{Reason: v1alpha1.ReasonUnknownRate, Err: fmt.Errorf("the uplink %s does not say its rate: give one in the policy, or to the agent with --rate", o.Uplink)}
	}
	id, err := node.TurnOn(o)
	if errors.Is(err, node.ErrForeign) {
		err = &follow.Refused{Reason: v1alpha1.ReasonForeignQdisc, Err: err}
	}
	return id, err
}

// Hint makes these the sizes of flows.
func (k *kernel) Hint(h flow.Hints) error { return node.SetHints(k.options.Pins, h) }

// Scope makes these the addresses whose flows are in bands by bytes.
func (k *kernel) Scope(scope []netip.Addr) error { return node.SetScope(k.options.Pins, scope) }

// Off turns it off.
func (k *kernel) Off() error {
	if err := node.TurnOff(k.options.Pins, 0); !errors.Is(err, node.ErrNoOrder) {
		return err
	}
	return nil
}

// State reads it.
func (k *kernel) State() (follow.State, error) {
	s, err := node.ReadOrder(k.options.Pins)
	if errors.Is(err, node.ErrNoOrder) {
		return follow.State{}, nil
	}
	state := follow.State{On: err == nil, Shaping: s.Shaping, Thresholds: s.Thresholds, ID: s.ID, Scope: s.Scope}
	if s.Uplink != "" && s.Uplink != k.options.Uplink {
		_, gone := node.FindUplink(k.options.Uplink)
		state.Elsewhere = gone == nil // otherwise the uplink may have another name now: the order stays
	}
	return state, err
}

// clusterConfig is that of the API server. Its user agent names the program.
func clusterConfig(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	return rest.AddUserAgent(config, "sigma-flow"), nil
}
