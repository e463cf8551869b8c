package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PlacementRule restricts the nodes on which pods may be placed.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Max-Per-Node",type=integer,JSONPath=`.spec.maxPerNode`
// +kubebuilder:printcolumn:name="Spread-Min",type=integer,JSONPath=`.spec.spreadMin`
// +kubebuilder:printcolumn:name="By",type=string,JSONPath=`.spec.topologyKey`,priority=1
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Conflicts",type=integer,JSONPath=`.status.conflicts`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Conflict",type=string,JSONPath=`.status.conditions[?(@.type=="Conflicting")].message`,priority=1
type PlacementRule struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The rule.
	// +required
	Spec PlacementRuleSpec `json:"spec"`
	// The report of the scheduler.
	// +optional
	Status PlacementRuleStatus `json:"status,omitempty"`
}

// PlacementRuleSpec holds the limits of a rule, and its pods.
//
// +kubebuilder:validation:XValidation:rule="has(self.maxPerNode) || has(self.spreadMin) || has(self.excludes) && self.excludes.size() > 0",message="a rule needs maxPerNode, spreadMin or excludes"
type PlacementRuleSpec struct {
	PodSet `json:",inline"`

	// The label of nodes whose values are the domains that maxPerNode, spreadMin and
	// excludes are about: kubernetes.io/hostname, a node by itself, or
	// topology.kubernetes.io/zone, all nodes of a zone.
	// +optional
	// +default="kubernetes.io/hostname"
	// +kubebuilder:validation:Enum=kubernetes.io/hostname;topology.kubernetes.io/zone
	TopologyKey string `json:"topologyKey,omitempty"`

	// The rule no longer binds a waiting pod this many minutes after its creation;
	// without it, the rule binds for ever.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10080
	AfterMinutes *int32 `json:"afterMinutes,omitempty"`

	// Most pods of one app on a node, for every app of which the selector picks pods.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	MaxPerNode *int32 `json:"maxPerNode,omitempty"`

	// A pod may join a node that holds its app only if the app then runs on at
	// least this many nodes, or on as many as it has pods.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	SpreadMin *int32 `json:"spreadMin,omitempty"`

	// Pods that the selected ones do not share a node with.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Excludes []Exclusion `json:"excludes,omitempty"`
}

// PodSet picks pods.
type PodSet struct {
	// Labels of the pods; an empty selector picks all.
	// +required
	// +kubebuilder:validation:XValidation:fieldPath=".matchExpressions",rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && e.values.size() > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || e.values.size() == 0))",message="want the operator In or NotIn with values, or Exists or DoesNotExist without"
	Selector metav1.LabelSelector `json:"selector"`

	// Namespaces of the pods; empty: all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespaces []string `json:"namespaces,omitempty"`
}

// Exclusion limits the pods that may share a node with a pod of the rule.
type Exclusion struct {
	PodSet `json:",inline"`

	// Most pods of this exclusion on a node that holds a pod of the rule.
	// +optional
	// +default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	Max int32 `json:"max"`
}

// PlacementRuleStatus is the report of the scheduler on a rule.
type PlacementRuleStatus struct {
	// Generation of the spec that the rest of the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Nodes, or zones, on which the rule does not hold at present.
	// +optional
	Conflicts int32 `json:"conflicts"`

	// Accepted and Conflicting.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PlacementRuleList is a list of rules.
//
// +kubebuilder:object:root=true
type PlacementRuleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PlacementRule `json:"items"`
}
