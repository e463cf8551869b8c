package control

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

const byPilot, byPolicy = "pilot", "policy"

var (
	counterfactualNodes = gauge("counterfactual_nodes", "Nodes in use if the policy had decided on all pods since the step began, or since the one in force is live; current: the nodes in use.", byPilot, byPolicy)
	counterfactualCost  = gauge("counterfactual_cost", "Cost of these nodes an hour, as in prices.", byPilot, byPolicy)
	savedNodes          = gauge("saved_nodes", "Nodes that the policy before the one in force would use now beyond those in use.", byPilot)
	savedCost           = gauge("saved_cost", "Cost an hour of the nodes that the policy before the one in force would use now, less that of those in use.", byPilot)

	registerOnce sync.Once
)

func gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "sigma", Name: name, Help: help}, labels)
}

func register() {
	registerOnce.Do(func() {
		ctrlmetrics.Registry.MustRegister(counterfactualNodes, counterfactualCost, savedNodes, savedCost)
	})
}

// publish sets the metrics of a pilot to its trajectories; without trajectories it
// deletes them.
func publish(pilot string, p paths) {
	set := func(g *prometheus.GaugeVec, there bool, v float64, labels ...string) {
		if there {
			g.WithLabelValues(labels...).Set(v)
		} else {
			g.DeleteLabelValues(labels...)
		}
	}
	for _, name := range []string{pathCurrent, pathInForce, pathBefore, pathCandidate, pathBestFit} {
		t, ok := p.of[name]
		set(counterfactualNodes, ok, float64(t.Nodes), pilot, name)
		set(counterfactualCost, ok, t.Cost, pilot, name)
	}
	before, ok := p.of[pathBefore]
	now := p.of[pathCurrent]
	set(savedNodes, ok, float64(before.Nodes-now.Nodes), pilot)
	set(savedCost, ok, before.Cost-now.Cost, pilot)
}
