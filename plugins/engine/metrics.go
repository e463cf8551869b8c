package engine

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

const subsystem = "sigma"

var (
	latency = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem: subsystem, Name: "decision_duration_seconds", StabilityLevel: metrics.ALPHA,
		Help:    "Time to rank the nodes for a pod.",
		Buckets: metrics.ExponentialBuckets(0.00001, 2, 16),
	}, []string{"profile"})
	repairSearch = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem: subsystem, Name: "repair_search_duration_seconds", StabilityLevel: metrics.ALPHA,
		Help:    "Time to look for a chain of moves that lets in a pod that fits on no node.",
		Buckets: metrics.ExponentialBuckets(0.0001, 2, 16),
	}, []string{"profile"})
	allocation = gauge("allocation_rate", "Requested share of the capacity of the nodes that hold a movable pod.", "resource")
	fragment   = gauge("fragment", "Share of the free capacity of active nodes, in the scarcest resource, that a pod of the present mix cannot use.")
	active     = gauge("active_nodes", "Nodes that hold a movable pod.")
	nodes      = gauge("nodes", "Nodes that may take pods.")
	waiting    = gauge("waiting_pods", "Pods that a policy was asked about and that stand nowhere.")
	apps       = gauge("apps", "Apps that are known: sets of equal pods of a workload.")
	divergence = gauge("state_divergence", "Differences between the packing state and the cluster as informers have it.")
	generation = gauge("policy_generation", "Generation of the policy object in force; 0 = there is none.", "role")

	chosen = gauge("policy_choice", "1 for the shipped file by which a policy decides that chooses among files, 0 for those it decided by before.", "role", "file")

	decisions     = counter("decisions_total", "Pods that got a node, by the policy's mode and by what decided.", "mode", "cause")
	disagreements = counter("disagreements_total", "Decisions in which policy and Best-Fit prefer different nodes.", "role")
	opened        = counter("nodes_opened_total", "Decisions that take an empty node: by the policy, by Best-Fit asked in the same cycles, by a canary in shadow.", "by")
	fallbacks     = counter("fallbacks_total", "Decisions for which Best-Fit ranked the nodes because the policy could not.", "reason")
	loadErrors    = counter("load_errors_total", "Objects that were not accepted.", "kind")
	conflicts     = counter("rule_conflicts_total", "Pods that another scheduler placed against a rule.", "rule")
	chainsBegun   = counter("repair_chains_begun_total", "Chains of moves for a pod that fits on no node: begun, or in DryRun only told.", "mode")
	chainsEnded   = counter("repair_chains_ended_total", "Chains of moves that ended, by what became of them.", "outcome")
	repairMoves   = counter("repair_moves_total", "Pods that a chain was to evict, by what became of it.", "outcome")
	unclear       = counter("unclear_bindings_total", "Bindings whose answer left open whether they were made, by what was found out.", "outcome")
	restarts      = counter("state_restarts_total", "Times that the packing state was rebuilt because it had refused an event.")
	forgotten     = counter("waiting_pods_forgotten_total", "Waiting pods that were forgotten without word of their end, because they waited long or are too many.", "reason")
	logErrors     = counter("decision_log_errors_total", "Failed writes to the decision log.")
	logLost       = counter("decision_log_lost_events_total", "Events that are missing in the decision log, because they could not be written.")

	register sync.Once
)

func gauge(name, help string, labels ...string) *metrics.GaugeVec {
	return metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA,
	}, append([]string{"profile"}, labels...))
}

func counter(name, help string, labels ...string) *metrics.CounterVec {
	return metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA,
	}, append([]string{"profile"}, labels...))
}

// profileMetrics are the metrics of one profile.
type profileMetrics struct {
	latency, repairSearch                                             metrics.ObserverMetric
	allocation, generation, chosen                                    gauges
	fragment, active, nodes, waiting, apps, divergence                metrics.GaugeMetric
	decisions, disagreements, opened, fallbacks, loadErrors, conflict counters
	forgotten, unclear, chainsBegun, chainsEnded, repairMoves         counters
	logErrors, logLost, restarts                                      metrics.CounterMetric
}

// counters and gauges are those of one profile.
type (
	counters struct {
		vec     *metrics.CounterVec
		profile string
	}
	gauges struct {
		vec     *metrics.GaugeVec
		profile string
	}
)

func (c counters) WithLabelValues(values ...string) metrics.CounterMetric {
	return c.vec.WithLabelValues(append([]string{c.profile}, values...)...)
}

func (g gauges) WithLabelValues(values ...string) metrics.GaugeMetric {
	return g.vec.WithLabelValues(append([]string{g.profile}, values...)...)
}

// forget removes the gauge of a resource.
func (g gauges) forget(resource string) {
	g.vec.Delete(map[string]string{"profile": g.profile, "resource": resource})
}

func metricsOf(profile string) *profileMetrics {
	register.Do(func() {
		legacyregistry.MustRegister(latency, repairSearch, chainsBegun, chainsEnded, repairMoves, allocation, fragment, active, nodes, generation, waiting, apps, forgotten, divergence, chosen,
			decisions, disagreements, opened, fallbacks, loadErrors, conflicts, unclear, logErrors, logLost, restarts)
	})
	m := &profileMetrics{
		latency: latency.WithLabelValues(profile), repairSearch: repairSearch.WithLabelValues(profile),
		chainsBegun: counters{chainsBegun, profile}, chainsEnded: counters{chainsEnded, profile}, repairMoves: counters{repairMoves, profile},
		allocation: gauges{allocation, profile}, generation: gauges{generation, profile}, chosen: gauges{chosen, profile},
		fragment: fragment.WithLabelValues(profile), active: active.WithLabelValues(profile), nodes: nodes.WithLabelValues(profile),
		waiting: waiting.WithLabelValues(profile), apps: apps.WithLabelValues(profile), forgotten: counters{forgotten, profile},
		divergence: divergence.WithLabelValues(profile),
		decisions:  counters{decisions, profile}, disagreements: counters{disagreements, profile},
		opened: counters{opened, profile}, fallbacks: counters{fallbacks, profile},
		loadErrors: counters{loadErrors, profile}, conflict: counters{conflicts, profile}, unclear: counters{unclear, profile},
		logErrors: logErrors.WithLabelValues(profile), logLost: logLost.WithLabelValues(profile), restarts: restarts.WithLabelValues(profile),
	}
	m.disagreements.WithLabelValues(string(ledger.Primary)) // a page has it before the first one
	return m
}
