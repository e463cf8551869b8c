package v1alpha1

// Concurrency configures how the capacity of a pod is learned.
//
// +kubebuilder:validation:XValidation:fieldPath=".max",rule="self.min <= self.max",message="max is below min"
// +kubebuilder:validation:XValidation:fieldPath=".initial",rule="self.min <= self.initial && self.initial <= self.max",message="want min to max"
// +kubebuilder:validation:XValidation:fieldPath=".port",rule="self.pod != 'Sidecar' || has(self.port)",message="pod Sidecar needs the name of the port that requests come to"
// +kubebuilder:validation:XValidation:fieldPath=".port",rule="self.pod != 'Knative' || !has(self.port)",reason=FieldValueForbidden,message="Knative has its own queue-proxy"
// +kubebuilder:validation:XValidation:fieldPath=".max",rule="self.pod != 'Knative' || self.max <= 1000",message="Knative takes at most 1000"
type Concurrency struct {
	// Mode Observe: measures and reports the capacity of a pod. Recommend: also reports the
	// number of replicas for it, and changes nothing. Apply: changes the limit of the pods; of
	// a Knative Service by a new Revision that first gets a tenth of the requests.
	// +optional
	// +default="Observe"
	// +kubebuilder:validation:Enum=Observe;Recommend;Apply
	Mode ConcurrencyMode `json:"mode,omitempty"`
	// Learner that searches the limit.
	// +optional
	// +default="law+walk"
	// +kubebuilder:validation:Enum=law+walk;law;golden;ucb;gradient2;vegas;aimd;paper
	Learner string `json:"learner,omitempty"`
	// Min and Max bound the limit.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Min int32 `json:"min,omitempty"`
	// +optional
	// +default=310
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Max int32 `json:"max,omitempty"`
	// Initial is the limit that is recommended before any measurement.
	// +optional
	// +default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Initial int32 `json:"initial,omitempty"`
	// MemoryShare is the share of a pod's memory request, or of its limit if it uses more
	// than it requests, up to which requests may fill it; default 0.85.
	// +optional
	// +default=0.85
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:ExclusiveMinimum=true
	// +kubebuilder:validation:Maximum=0.95
	MemoryShare float64 `json:"memoryShare,omitempty"`
	// Pod Annotation: the gate is in the workload's template, or in the program. Sidecar: the
	// webhook adds a gate to new pods, before Port. Knative: the pods are those of a Knative
	// Service.
	// +optional
	// +default="Annotation"
	// +kubebuilder:validation:Enum=Annotation;Sidecar;Knative
	Pod ConcurrencyPod `json:"pod,omitempty"`
	// Port is the name of the container's port that receives the requests. With pod Sidecar
	// the pod's gate has it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	Port string `json:"port,omitempty"`
}

// ConcurrencyPod is the origin of a pod's gate.
type ConcurrencyPod string

// The origins of a gate.
const (
	PodAnnotation ConcurrencyPod = "Annotation"
	PodSidecar    ConcurrencyPod = "Sidecar"
	PodKnative    ConcurrencyPod = "Knative"
)

// ConcurrencyMode is the use of the learned capacity of a pod.
type ConcurrencyMode string

// The modes of concurrency.
const (
	ConcurrencyObserve   ConcurrencyMode = "Observe"
	ConcurrencyRecommend ConcurrencyMode = "Recommend"
	ConcurrencyApply     ConcurrencyMode = "Apply"
)

// AnnotationLimit of a pod is the number of requests that its gate lets in at once.
const AnnotationLimit = "sigma-scheduler.io/concurrency"

// AnnotationGate of a pod describes the gate that the webhook has added, or, after [GateRefused],
// the reason for no gate.
const (
	AnnotationGate = GroupName + "/gate"
	GateRefused    = "refused: "
)
