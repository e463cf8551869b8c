package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Rebalance finds a few moves of pods that serve a goal, such as free nodes, and in mode Auto makes the moves.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Goal",type=string,JSONPath=`.spec.goal`,priority=1
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

	// The limits of the moves, and the interval.
	// +required
	Spec RebalanceSpec `json:"spec"`
	// The result of the scheduler.
	// +optional
	Status RebalanceStatus `json:"status,omitempty"`
}

// RebalanceMode determines the use of a plan.
//
// +kubebuilder:validation:Enum=DryRun;Auto
type RebalanceMode string

// RebalanceDryRun writes the plan to the status and moves nothing; RebalanceAuto executes it.
const (
	RebalanceDryRun RebalanceMode = "DryRun"
	RebalanceAuto   RebalanceMode = "Auto"
)

// RebalanceGoal is the purpose of the moves.
//
// +kubebuilder:validation:Enum=EmptyNodes;Relief;Fit
type RebalanceGoal string

// RebalanceEmptyNodes empties nodes; RebalanceRelief takes pods from nodes whose pods use more than the node has;
// RebalanceFit from nodes whose pods request more than the node has.
const (
	RebalanceEmptyNodes RebalanceGoal = "EmptyNodes"
	RebalanceRelief     RebalanceGoal = "Relief"
	RebalanceFit        RebalanceGoal = "Fit"
)

// RebalanceSpec holds the limits of the moves, and the interval.
type RebalanceSpec struct {
	// EmptyNodes empties nodes. Relief moves one pod away from a node whose pods have used more
	// than the node has for 10 minutes, by the Prometheus in the scheduler's argument
	// rebalancePrometheus. Fit moves pods away from nodes whose pods request more than the node has,
	// as after resizes in place.
	// +optional
	// +kubebuilder:default=EmptyNodes
	Goal RebalanceGoal `json:"goal,omitempty"`

	// DryRun writes the plan to the status. Nothing is moved. Auto executes the plan, node
	// by node.
	// +optional
	// +kubebuilder:default=DryRun
	Mode RebalanceMode `json:"mode,omitempty"`

	// No new plan is made. The last one stays. In mode Auto no more pods are evicted, and nodes
	// that were cordoned are uncordoned.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// The time from one plan to the next, 1m to 168h. Empty = 15m for EmptyNodes, 1m for Relief,
	// 24h for Fit. 24h of Fit begin at 00:05 UTC.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="self >= duration('1m') && self <= duration('168h')",message="want 1m to 168h"
	Every string `json:"every,omitempty"`

	// The most moves of a plan, for Relief and Fit of a day of UTC and at most 1000: a number, or a share of the pods
	// on nodes such as 1%. Empty = 5% for EmptyNodes, 1% for Relief and Fit.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2}(\.[0-9]+)?)%$|^[0-9]{1,6}$`
	Moves string `json:"moves,omitempty"`

	// Of Relief: the percentage of a node's allocatable cpu or memory above which its pods use too much. A node that is
	// short of cpu shows no more use than it has: where allocatable is all of it, less than 100 is needed.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=50
	// +kubebuilder:validation:Maximum=100
	ReliefPercent int32 `json:"reliefPercent,omitempty"`

	// A pod is not moved if its workload has fewer pods than this on nodes. 1 lets the only pod
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

	// In mode Auto, the most pods that are evicted for this object within an hour, by any
	// scheduler. The limits of all evictions apply too. Empty = a twentieth of the pods on nodes, but at least 20.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MovesPerHour int32 `json:"movesPerHour,omitempty"`

	// In mode Auto, the most pods that are away at a time: evicted, and not yet ready on their new
	// nodes.
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	InFlight int32 `json:"inFlight,omitempty"`

	// Conditions under which mode Auto stops by itself, until the next plan.
	// +optional
	// +kubebuilder:default={}
	StopWhen RebalanceStop `json:"stopWhen,omitempty"`
}

// RebalanceStop holds the conditions under which mode Auto stops: no more pods are evicted, and all nodes that
// were cordoned are uncordoned.
//
// +kubebuilder:validation:XValidation:rule="has(self.query) == has(self.threshold)",message="query and threshold go together"
type RebalanceStop struct {
	// The number of waiting pods that fit on no node, from which it stops.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	PendingPods int32 `json:"pendingPods,omitempty"`

	// A query of the Prometheus in the scheduler's argument rebalancePrometheus. It
	// stops if a value of the result is above the threshold, and if there is no response or no
	// value.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Query string `json:"query,omitempty"`

	// The most that the query may return.
	// +optional
	Threshold *float64 `json:"threshold,omitempty"`
}

// RebalanceStatus is the result of the scheduler.
type RebalanceStatus struct {
	// Generation of the spec that the rest of the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Start of the last plan. Of several schedulers, the one that writes it makes the
	// plan.
	// +optional
	LastTime *metav1.MicroTime `json:"lastTime,omitempty"`

	// The moves of Relief and Fit in mode Auto on this day of UTC. Each is written before its pod is
	// evicted, and removed if the pod was not. They count toward the limits of a day.
	// +optional
	// +nullable
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Today []RebalanceMove `json:"today"` // null removes the former ones from the object

	// The last plan that was made.
	// +optional
	Plan *RebalancePlan `json:"plan,omitempty"`

	// The progress of mode Auto with a plan. A restarted scheduler resumes no plan.
	// +optional
	Progress *RebalanceProgress `json:"progress,omitempty"`

	// Accepted and Planned; in mode Auto also Progressing and Stopped.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// RebalancePlan is the effect of a few moves, as `sigma rebalance` counts it. Plans of Relief and Fit have no bounds,
// and free no node.
type RebalancePlan struct {
	// Time when the cluster was read.
	// +required
	Time metav1.MicroTime `json:"time"`

	// Nodes that hold a pod that could be elsewhere.
	// +required
	Nodes int32 `json:"nodes"`

	// Of these, nodes that the moves free.
	// +required
	Freed int32 `json:"freed"`

	// Lower bound on the nodes that any placement of the pods needs.
	// +required
	Bound int32 `json:"bound"`

	// Moves of the plan. A pod that steps aside and moves on counts twice.
	// +required
	Moves int32 `json:"moves"`

	// Lower bound on the moves that free as many nodes.
	// +required
	LeastMoves int32 `json:"leastMoves"`

	// Pods on the nodes.
	// +required
	Pods int32 `json:"pods"`

	// Of these, pods that must not move.
	// +required
	Fixed int32 `json:"fixed"`

	// The nodes that would be free, at most 50, in the order in which the plan empties them.
	// +optional
	// +nullable
	// +listType=atomic
	Empties []EmptiedNode `json:"empties"` // null removes the former ones from the object

	// Of Relief and Fit: nodes whose pods use or request more than the node has.
	// +optional
	// +nullable
	Over *int32 `json:"over"` // null removes the former one from the object

	// Of Relief and Fit: the moves, at most 50, in their order.
	// +optional
	// +nullable
	// +listType=atomic
	Leaves []RebalanceMove `json:"leaves"` // null removes the former ones from the object
}

// RebalanceMove is a move of a pod to another node.
type RebalanceMove struct {
	// Time of the plan.
	// +required
	Time metav1.MicroTime `json:"time"`

	// The pod, as namespace/name.
	// +required
	Pod string `json:"pod"`

	// The pod's workload.
	// +required
	Workload string `json:"workload"`

	// The node that it leaves.
	// +required
	From string `json:"from"`

	// The node for its replacement.
	// +required
	To string `json:"to"`
}

// RebalanceProgress is the progress of mode Auto with a plan.
type RebalanceProgress struct {
	// Start of the plan.
	// +required
	Time metav1.MicroTime `json:"time"`

	// The node that is being emptied.
	// +optional
	// +nullable
	Node *string `json:"node"` // null removes the former one from the object

	// Nodes that were emptied.
	// +required
	Freed int32 `json:"freed"`

	// Pods that are ready on their planned nodes.
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

	// The number of moves of the plan after which it is free.
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
