package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PlacementPlan assigns the pods of workloads to nodes.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Pods",type=integer,JSONPath=`.status.pods`
// +kubebuilder:printcolumn:name="Landed",type=integer,JSONPath=`.status.landed`
// +kubebuilder:printcolumn:name="Reserved",type=integer,JSONPath=`.status.reserved`
// +kubebuilder:printcolumn:name="Elsewhere",type=integer,JSONPath=`.status.elsewhere`
// +kubebuilder:printcolumn:name="Deadline",type=string,JSONPath=`.spec.deadline`
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Active")].message`,priority=1
type PlacementPlan struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The plan.
	// +required
	Spec PlacementPlanSpec `json:"spec"`
	// The report of the scheduler.
	// +optional
	Status PlacementPlanStatus `json:"status,omitempty"`
}

// PlanMode determines the effect of a plan.
//
// +kubebuilder:validation:Enum=DryRun;Enabled
type PlanMode string

// The modes of plans.
const (
	PlanDryRun  PlanMode = "DryRun"  // it reports only
	PlanEnabled PlanMode = "Enabled" // it reserves, and pods are placed as planned
)

// PlacementPlanSpec holds the nodes of pods, and the deadline.
type PlacementPlanSpec struct {
	// DryRun only reports the room that there is. Enabled reserves the room, and the pods
	// are placed there.
	// +optional
	// +kubebuilder:default=DryRun
	Mode PlanMode `json:"mode,omitempty"`

	// The time at which all reservations end.
	// +required
	Deadline metav1.Time `json:"deadline"`

	// The workloads, each once.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2000
	Workloads []PlannedWorkload `json:"workloads"`
}

// PlannedWorkload is a workload and the nodes of its pods, including running
// ones.
type PlannedWorkload struct {
	// Namespace of the pods.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// The kind of the pods' top controller, such as Deployment; empty if the label in the
	// scheduler's argument appLabel names the app of a pod.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`

	// The controller's name, or the label's value.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// The requests of one pod, as kube-scheduler counts them.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Requests map[string]resource.Quantity `json:"requests,omitempty"`

	// The nodes, each once.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5000
	Nodes []PlannedNode `json:"nodes"`
}

// PlannedNode is the number of pods that a workload is to have on a node.
type PlannedNode struct {
	// The node's name. The node need not exist yet.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node"`

	// Pods of the workload on it, including running ones.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Pods int32 `json:"pods"`
}

// PlacementPlanStatus is the report of the scheduler on a plan.
type PlacementPlanStatus struct {
	// Generation of the spec that the rest of the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Pods of the plan.
	// +optional
	Pods int32 `json:"pods"`

	// Of these, the pods that run on their planned node, or on the one that they were replanned to.
	// +optional
	Landed int32 `json:"landed"`

	// Pods that room is reserved for.
	// +optional
	Reserved int32 `json:"reserved"`

	// Pods of the workloads on nodes that are not planned for them, or beyond the planned number.
	// +optional
	Elsewhere int32 `json:"elsewhere"`

	// Pods that lost their place and were replanned on other nodes, which the message of the
	// condition Active names.
	// +optional
	Replanned int32 `json:"replanned"`

	// Accepted and Active.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PlacementPlanList is a list of plans.
//
// +kubebuilder:object:root=true
type PlacementPlanList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PlacementPlan `json:"items"`
}
