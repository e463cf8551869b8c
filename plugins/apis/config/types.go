package config

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Mappings from a policy's scores to the scheduler's 0 to 100.
const (
	MappingRank   = "rank"   // best node 100, next 99, and so on: the policy decides
	MappingLinear = "linear" // proportional: advice next to other plugins
)

// Fleets: the nodes that are candidates of a policy.
const (
	FleetOpen  = "open"  // the ones in use and one empty node of each kind: empty nodes stay empty
	FleetFixed = "fixed" // all
)

// MinDecisionLogBytes is the least limit of a file of the decision log.
const MinDecisionLogBytes = 64 << 10

// SigmaArgs are the arguments of the plugin Sigma.
//
// +kubebuilder:object:root=true
type SigmaArgs struct {
	metav1.TypeMeta

	// PolicyName is the PlacementPolicy that decides.
	PolicyName string
	// CanaryPolicyName is a second one that decides for a share of the workloads,
	// or is compared in shadow; empty: no second one.
	CanaryPolicyName string
	// AppLabel is the label whose value is a pod's app; empty: the app is the
	// pod's topmost controller.
	AppLabel string
	// Mapping is MappingRank or MappingLinear.
	Mapping string
	// Fleet is FleetOpen or FleetFixed.
	Fleet string
	// Prices is the path of a file with the cost of nodes, as that of sigma snapshot --prices;
	// empty: no file.
	Prices string
	// DecisionLog is the path of a file to which decisions are appended; empty: no log.
	DecisionLog string
	// DecisionLogBytes is the size at which DecisionLog is renamed and begins in
	// another file; 0: never.
	DecisionLogBytes int64
	// DecisionLogFiles is the number of former files of DecisionLog that are kept; 0: all.
	DecisionLogFiles int32
	// Deadline is the longest time for one pod's scores before Best-Fit decides; 0: no
	// limit.
	Deadline metav1.Duration
	// ForecastMaxAge is the age at which a forecast is stale and Best-Fit decides.
	ForecastMaxAge metav1.Duration
	// MaxGracePeriod is the longest terminationGracePeriodSeconds of a pod that is moved, by make-room
	// or a Rebalance, and the longest wait for the end of a moved pod; 0: 15m.
	MaxGracePeriod metav1.Duration
	// RebalancePrometheus is the URL of the Prometheus for the queries of Rebalances;
	// empty: no Prometheus.
	RebalancePrometheus string
}
