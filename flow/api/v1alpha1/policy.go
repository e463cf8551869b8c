package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Mode is the step that a policy is in.
//
// +kubebuilder:validation:Enum=Disabled;Observe;Canary;Live
type Mode string

// The modes.
const (
	Disabled Mode = "Disabled"
	Observe  Mode = "Observe"
	Canary   Mode = "Canary"
	Live     Mode = "Live"
)

// Condition types of a FlowPolicy.
const (
	// ConditionAccepted: agents can read the policy.
	ConditionAccepted = "Accepted"
	// ConditionActive: nodes order their uplinks by it.
	ConditionActive = "Active"
)

// FlowPolicy sets which nodes send short flows first, and by which thresholds.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Active",type=string,JSONPath=`.status.conditions[?(@.type=="Active")].status`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes.matching`
// +kubebuilder:printcolumn:name="Ordered",type=integer,JSONPath=`.status.nodes.ordered`
// +kubebuilder:printcolumn:name="Unheard",type=integer,JSONPath=`.status.nodes.unheard`
// +kubebuilder:printcolumn:name="Why",type=string,JSONPath=`.status.conditions[?(@.type=="Active")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Active")].message`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name: at most 63 characters"
type FlowPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which nodes, and how.
	// +required
	Spec FlowPolicySpec `json:"spec"`
	// Progress of the policy.
	// +optional
	Status FlowPolicyStatus `json:"status,omitempty"`
}

// FlowPolicySpec sets which nodes order their uplinks, and how.
//
// +kubebuilder:validation:XValidation:fieldPath=".thresholds",rule="!has(self.thresholds) || self.thresholds.size() == self.bands - 1",message="want one threshold less than bands"
// +kubebuilder:validation:XValidation:fieldPath=".hints",rule="!has(self.hints) || !self.hints || self.bands > 2",message="want at least 3 bands: a hint counts after the first, and then there are two to choose from"
type FlowPolicySpec struct {
	// Labels of the nodes; without it all. A node that several policies select follows the oldest.
	// +optional
	// +kubebuilder:validation:XValidation:fieldPath=".matchExpressions",rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && e.values.size() > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || e.values.size() == 0))",message="want the operator In or NotIn with values, or Exists or DoesNotExist without"
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`

	// Labels of the namespaces whose pods' flows are in bands by the bytes that they have sent; without it all flows
	// are. Other flows use the middle band, as do those of pods in the host's network.
	// +optional
	// +kubebuilder:validation:XValidation:fieldPath=".matchExpressions",rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && e.values.size() > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || e.values.size() == 0))",message="want the operator In or NotIn with values, or Exists or DoesNotExist without"
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// Disabled and Observe order nothing; Canary orders a share of the nodes, Live all of them. In Disabled no thresholds are
	// sought either.
	// +optional
	// +kubebuilder:default=Observe
	Mode Mode `json:"mode,omitempty"`

	// The share of the nodes in mode Canary, by a hash of their names. It is one node at least.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=99
	CanaryPercent int32 `json:"canaryPercent,omitempty"`

	// The number of bands.
	// +optional
	// +kubebuilder:default=4
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=8
	Bands int32 `json:"bands,omitempty"`

	// Bytes after which a flow leaves a band, ascending, 1 kB to 1 TB. Without them sigma-flow central finds
	// some from the flows that the nodes see.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=7
	// +kubebuilder:validation:items:Minimum=1000
	// +kubebuilder:validation:items:Maximum=1000000000000
	// +kubebuilder:validation:XValidation:rule="self.isSorted() && self.all(t, self.exists_one(o, o == t))",message="want them ascending"
	Thresholds []int64 `json:"thresholds,omitempty"`

	// Bits per second that an uplink really sends, 1M to 1T, a few percent below its nominal rate: packets have to wait
	// on the node, where they are ordered. Without it: the agent's --rate, or 95 % of the link's own rate.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1M')) >= 0 && quantity(string(self)).compareTo(quantity('1T')) <= 0",message="want 1M to 1T"
	Rate *resource.Quantity `json:"rate,omitempty"`

	// The share of the rate that each band has at least, in percent, so that no flow starves.
	// +optional
	// +kubebuilder:default=0.1
	// +kubebuilder:validation:Maximum=5
	// +kubebuilder:validation:XValidation:rule="self >= 0.1",message="want 0.1 to 5"
	FloorPercent float64 `json:"floorPercent,omitempty"`

	// Whether sizes count that pods declare in their annotation sigma-scheduler.io/flow-size, such as 5432=10M,80=20k:
	// bytes of the flows that they send, by a port of either side. After its first band a flow moves to the deeper of
	// two, that of its size and that of its bytes. A node uses the sizes declared by a workload after 30 of its flows,
	// while the root mean square of the error of the size's logarithm is at most 1, a factor of e. If no declared size
	// is right, it uses the sizes of the workload's earlier flows of the port, by the same rule, and if that is clearly
	// better than without their port.
	// +optional
	Hints bool `json:"hints,omitempty"`

	// Whether the nodes write a DSCP into packets of flows that have none (0), so that the network may continue the
	// order: with 4 bands AF31, AF21, AF11 and CS1. ECN stays. Packets that belong to no flow, and those of other
	// namespaces than the selected ones, stay as they are.
	// +optional
	DSCP bool `json:"dscp,omitempty"`
}

// SizeAnnotation holds a pod's declaration of the flows that it sends, in the format of flow.ParseHints.
const SizeAnnotation = "sigma-scheduler.io/flow-size"

// FlowPolicyStatus is the progress of a policy. sigma-flow central writes it.
type FlowPolicyStatus struct {
	// Generation of the spec that the rest of the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// One more with each change of the thresholds. Agents refuse a smaller one, and one that is far above the last.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1099511627776
	Sequence int64 `json:"sequence,omitempty"`

	// Thresholds that nodes order by, or would: those of the spec, or those that were found.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=7
	// +kubebuilder:validation:items:Minimum=1000
	// +kubebuilder:validation:items:Maximum=1000000000000
	Thresholds []int64 `json:"thresholds,omitempty"`

	// The node that is the canary if the share has no nodes.
	// +optional
	CanaryNode string `json:"canaryNode,omitempty"`

	// How many nodes.
	// +optional
	Nodes FlowPolicyNodes `json:"nodes,omitempty"`

	// Result of the last search for thresholds.
	// +optional
	Search string `json:"search,omitempty"`

	// Accepted and Active.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// FarAhead is the most by which a sequence number may be above the last one taken. No central reaches it; a larger step
// is refused.
const FarAhead = 1 << 30

// FlowPolicyNodes counts nodes. All but the unheard have agents that were heard of within the last minutes.
type FlowPolicyNodes struct {
	// Those that follow the policy.
	// +optional
	Matching int32 `json:"matching"`
	// Those of them that have the present spec and sequence.
	// +optional
	Acknowledged int32 `json:"acknowledged"`
	// Those of them whose uplink is ordered.
	// +optional
	Ordered int32 `json:"ordered"`
	// Others that follow the policy, whose uplink was ordered when their agents were last heard of. It may still be.
	// +optional
	Unheard int32 `json:"unheard"`
}

// FlowPolicyList is a list of policies.
//
// +kubebuilder:object:root=true
type FlowPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FlowPolicy `json:"items"`
}
