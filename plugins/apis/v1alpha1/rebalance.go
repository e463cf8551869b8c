package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Rebalance asks which nodes a few moves of pods would free, and in mode Auto makes the moves.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.plan.nodes`
// +kubebuilder:printcolumn:name="Freed",type=integer,JSONPath=`.status.plan.freed`
// +kubebuilder:printcolumn:name="Moves",type=integer,JSONPath=`.status.plan.moves`
// +kubebuilder:printcolumn:name="Planned",type=string,JSONPath=`.status.conditions[?(@.type=="Planned")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Planned")].message`,priority=1
type Rebalance struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What to look for, and how often.
	// +required
	Spec RebalanceSpec `json:"spec"`
	// What the scheduler found.
	// +optional
	Status RebalanceStatus `json:"status,omitempty"`
}

// RebalanceMode says what is done with a plan.
//
// +kubebuilder:validation:Enum=DryRun;Auto
type RebalanceMode string

// RebalanceDryRun writes the plan to the status and moves nothing; RebalanceAuto carries it out.
const (
	RebalanceDryRun RebalanceMode = "DryRun"
	RebalanceAuto   RebalanceMode = "Auto"
)

// RebalanceSpec says what to look for, and how often.
type RebalanceSpec struct {
	// DryRun writes what would be done to the status. Nothing is moved. Auto carries it out, node
	// by node.
	// +optional
	// +kubebuilder:default=DryRun
	Mode RebalanceMode `json:"mode,omitempty"`

	// No new plan is made. The last one stays. In mode Auto no more pods are evicted, and nodes
	// that were cordoned are uncordoned.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// The time from one plan to the next, 1m to 168h.
	// +optional
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="self >= duration('1m') && self <= duration('168h')",message="want 1m to 168h"
	Every string `json:"every,omitempty"`

	// The most moves of a plan: a number, or a share of the pods that stand such as 1%.
	// +optional
	// +kubebuilder:default="1%"
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2}(\.[0-9]+)?)%$|^[0-9]{1,6}$`
	Moves string `json:"moves,omitempty"`

	// A pod stays where its workload has fewer pods than this on nodes. 1 lets the only pod
	// of a workload move, which interrupts it.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	MinReplicas int32 `json:"minReplicas,omitempty"`

	// Only pods on nodes with all of these labels move, and only to such nodes. Empty = all
	// nodes.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// In mode Auto, the most pods that are evicted for this object within an hour, by whatever
	// scheduler. The limits of all evictions hold beside it.
	// +optional
	// +kubebuilder:default=20
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MovesPerHour int32 `json:"movesPerHour,omitempty"`

	// In mode Auto, the most pods that are away at a time: evicted, and not ready in their new
	// places.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	InFlight int32 `json:"inFlight,omitempty"`

	// When mode Auto stops by itself, until the next plan.
	// +optional
	// +kubebuilder:default={}
	StopWhen RebalanceStop `json:"stopWhen,omitempty"`
}

// RebalanceStop says when mode Auto stops: no more pods are evicted, and all nodes that were
// cordoned are uncordoned.
//
// +kubebuilder:validation:XValidation:rule="has(self.query) == has(self.threshold)",message="query and threshold go together"
type RebalanceStop struct {
	// So many pods wait that fit on no node.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	PendingPods int32 `json:"pendingPods,omitempty"`

	// A query of the Prometheus that the scheduler's argument rebalancePrometheus names. It
	// stops where a value of the answer is above the threshold, and where there is no answer or no
	// value.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Query string `json:"query,omitempty"`

	// The most that the query may return.
	// +optional
	Threshold *float64 `json:"threshold,omitempty"`
}

// RebalanceStatus is what the scheduler found.
type RebalanceStatus struct {
	// Generation of the spec that the rest of the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// When the last plan was begun. Of several schedulers, the one that writes it makes the
	// plan.
	// +optional
	LastTime *metav1.MicroTime `json:"lastTime,omitempty"`

	// The last plan that was made.
	// +optional
	Plan *RebalancePlan `json:"plan,omitempty"`

	// How far mode Auto is with a plan. A scheduler that starts again goes on with none.
	// +optional
	Progress *RebalanceProgress `json:"progress,omitempty"`

	// Accepted and Planned; in mode Auto also Progressing and Stopped.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// RebalancePlan is what a few moves would do, as `sigma rebalance` counts it.
type RebalancePlan struct {
	// When the cluster was read.
	// +required
	Time metav1.MicroTime `json:"time"`

	// Nodes that hold a pod that could be elsewhere.
	// +required
	Nodes int32 `json:"nodes"`

	// Of these, nodes that the moves free.
	// +required
	Freed int32 `json:"freed"`

	// No placement of the pods needs fewer nodes.
	// +required
	Bound int32 `json:"bound"`

	// Moves of the plan. A pod that steps aside and moves on counts twice.
	// +required
	Moves int32 `json:"moves"`

	// To free as many nodes takes at least so many moves.
	// +required
	LeastMoves int32 `json:"leastMoves"`

	// Pods that stand on the nodes.
	// +required
	Pods int32 `json:"pods"`

	// Of these, pods that must not move.
	// +required
	Fixed int32 `json:"fixed"`

	// The nodes that would be free, at most 50, in the order in which the plan empties them.
	// +optional
	// +nullable
	// +listType=atomic
	Empties []EmptiedNode `json:"empties"` // null takes the last ones out of the object
}

// RebalanceProgress is how far mode Auto is with a plan.
type RebalanceProgress struct {
	// When the plan was begun.
	// +required
	Time metav1.MicroTime `json:"time"`

	// The node that is being emptied.
	// +optional
	// +nullable
	Node *string `json:"node"` // null takes the last one out of the object

	// Nodes that were emptied.
	// +required
	Freed int32 `json:"freed"`

	// Pods that stand, ready, where the plan has them.
	// +required
	Moved int32 `json:"moved"`

	// Nodes that were given up, and uncordoned.
	// +required
	GivenUp int32 `json:"givenUp"`
}

// EmptiedNode is a node that a plan frees.
type EmptiedNode struct {
	// The node's name.
	// +required
	Node string `json:"node"`

	// It is free after so many moves of the plan.
	// +required
	Moves int32 `json:"moves"`
}

// RebalanceList is a list of rebalances.
//
// +kubebuilder:object:root=true
type RebalanceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Rebalance `json:"items"`
}
