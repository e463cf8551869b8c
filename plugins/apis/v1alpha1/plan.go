package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PlacementPlan says on which nodes the pods of workloads are to land.
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
	// What the scheduler reports.
	// +optional
	Status PlacementPlanStatus `json:"status,omitempty"`
}

// PlanMode says what a plan does.
//
// +kubebuilder:validation:Enum=DryRun;Enabled
type PlanMode string

// The modes of plans.
const (
	PlanDryRun  PlanMode = "DryRun"  // it reports only
	PlanEnabled PlanMode = "Enabled" // it reserves, and pods land as it says
)

// PlacementPlanSpec is where pods are to land, and until when.
type PlacementPlanSpec struct {
	// DryRun only reports what there is room for. Enabled reserves the room, and the pods
	// land there.
	// +optional
	// +kubebuilder:default=DryRun
	Mode PlanMode `json:"mode,omitempty"`

	// From then on nothing is reserved any more.
	// +required
	Deadline metav1.Time `json:"deadline"`

	// The workloads, each once.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2000
	Workloads []PlannedWorkload `json:"workloads"`
}

// PlannedWorkload is a workload and the nodes of its pods, those that stand already
// included.
type PlannedWorkload struct {
	// Namespace of the pods.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// The kind of the pods' top controller, such as Deployment; empty where the label that
	// the scheduler's argument appLabel names says which app a pod is of.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`

	// The controller's name, or the label's value.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// What one pod needs, as kube-scheduler counts it.
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

// PlannedNode is how many pods of a workload are to stand on a node.
type PlannedNode struct {
	// The node's name. It need not be there yet.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node"`

	// Pods of the workload on it, those that stand there already included.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Pods int32 `json:"pods"`
}

// PlacementPlanStatus is what the scheduler reports of a plan.
type PlacementPlanStatus struct {
	// Generation of the spec that the rest of the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Pods of the plan.
	// +optional
	Pods int32 `json:"pods"`

	// Of these, the pods that stand where the plan has them, or where they were planned again.
	// +optional
	Landed int32 `json:"landed"`

	// Pods that room is reserved for.
	// +optional
	Reserved int32 `json:"reserved"`

	// Pods of the workloads that stand where the plan has none, or no more.
	// +optional
	Elsewhere int32 `json:"elsewhere"`

	// Pods that lost their place and were planned again, on other nodes. The message of the
	// condition Active names these.
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
