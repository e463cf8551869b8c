package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ConditionShaping is the condition of a NodeFlows that the node's uplink is ordered.
const ConditionShaping = "Shaping"

// Reasons of the condition Shaping.
const (
	ReasonOrdered           = "Ordered"
	ReasonNoPolicy          = "NoPolicy"
	ReasonMode              = "Mode"         // of the policy, which orders nothing, or not this node
	ReasonNoThresholds      = "NoThresholds" // there are none yet
	ReasonUnknownRate       = "UnknownRate"
	ReasonUnknownNamespaces = "UnknownNamespaces" // the pods of the policy's namespaces are not known yet
	ReasonForeignQdisc      = "ForeignQdisc"      // somebody else orders the uplink's queue
	ReasonFailed            = "Failed"
)

// NodeFlows is the state of a node's flows. It has the node's name.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=nodeflows,singular=nodeflows
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.status.policy`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.status.mode`
// +kubebuilder:printcolumn:name="Shaping",type=string,JSONPath=`.status.conditions[?(@.type=="Shaping")].status`
// +kubebuilder:printcolumn:name="Why",type=string,JSONPath=`.status.conditions[?(@.type=="Shaping")].reason`
// +kubebuilder:printcolumn:name="Sequence",type=integer,JSONPath=`.status.sequence`
// +kubebuilder:printcolumn:name="Load",type=number,JSONPath=`.status.traffic.load`
// +kubebuilder:printcolumn:name="Heard",type=date,JSONPath=`.status.at`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Shaping")].message`,priority=1
type NodeFlows struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// State of the node, written by its agent.
	// +optional
	Status NodeFlowsStatus `json:"status,omitempty"`
}

// NodeFlowsStatus is the state of a node. Its agent writes it.
type NodeFlowsStatus struct {
	// When it was written.
	// +optional
	At metav1.Time `json:"at,omitempty"`

	// The policy that the node follows. Empty: no policy selects it.
	// +optional
	Policy string `json:"policy,omitempty"`
	// +optional
	PolicyUID types.UID `json:"policyUID,omitempty"`
	// Other policies that select the node, which it does not follow: they are younger.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	PassedOver []string `json:"passedOver,omitempty"`

	// Generation of the policy that the node follows.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Sequence number of the policy's thresholds that the agent took last.
	// +optional
	Sequence int64 `json:"sequence,omitempty"`
	// Mode of the policy.
	// +optional
	Mode Mode `json:"mode,omitempty"`
	// Bytes after which a flow leaves a band on this node's uplink. Empty: it is not ordered.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=7
	Thresholds []int64 `json:"thresholds,omitempty"`
	// How often the agent refused an older generation or sequence, one far ahead, or invalid thresholds. It kept those
	// before.
	// +optional
	Refused int64 `json:"refused,omitempty"`

	// Traffic that the agent saw last.
	// +optional
	Traffic *NodeTraffic `json:"traffic,omitempty"`

	// Shaping.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodeTraffic is the traffic of a node.
type NodeTraffic struct {
	// One more with each that the agent writes, also after its restart.
	// +required
	// +kubebuilder:validation:Minimum=1
	Number int64 `json:"number"`
	// When it ends. It begins where the one before ends.
	// +required
	Until metav1.Time `json:"until"`
	// Traffic sent by the uplink over up to ten minutes, in bits per second.
	// +optional
	BitsPerSecond float64 `json:"bitsPerSecond,omitempty"`
	// The same as a share of the uplink's rate. Without it the rate is unknown.
	// +optional
	Load *float64 `json:"load,omitempty"`
	// Payload of the flows that ended, in bytes.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`
	// The sizes of the flows that ended: the bin of the first number below. A bin is an eighth of an octave: sizes from
	// 2^(bin/8) bytes up to those of the next bin.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=399
	First int32 `json:"first,omitempty"`
	// How many flows that bin and those after it have.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=400
	// +kubebuilder:validation:items:Minimum=0
	// +kubebuilder:validation:items:Maximum=9999999
	Counts []int64 `json:"counts,omitempty"`
}

// NodeFlowsList is a list of them.
//
// +kubebuilder:object:root=true
type NodeFlowsList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeFlows `json:"items"`
}
