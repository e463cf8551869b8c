package v1alpha1

// Concurrency says how what a pod can take is learned.
//
// +kubebuilder:validation:XValidation:fieldPath=".max",rule="self.min <= self.max",message="max is below min"
// +kubebuilder:validation:XValidation:fieldPath=".initial",rule="self.min <= self.initial && self.initial <= self.max",message="want min to max"
// +kubebuilder:validation:XValidation:fieldPath=".port",rule="self.pod != 'Sidecar' || has(self.port)",message="pod Sidecar needs the name of the port that requests come to"
// +kubebuilder:validation:XValidation:fieldPath=".port",rule="self.pod != 'Knative' || !has(self.port)",reason=FieldValueForbidden,message="Knative has its own queue-proxy"
// +kubebuilder:validation:XValidation:fieldPath=".max",rule="self.pod != 'Knative' || self.max <= 1000",message="Knative takes at most 1000"
type Concurrency struct {
	// Mode Observe: measures and says what a pod takes. Recommend: also says how many replicas
	// that would be, and changes nothing. Apply: changes the limit of the pods; of a Knative
	// Service by a new Revision that first gets a tenth of the requests.
	// +optional
	// +default="Observe"
	// +kubebuilder:validation:Enum=Observe;Recommend;Apply
	Mode ConcurrencyMode `json:"mode,omitempty"`
	// Learner that looks for the limit.
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
	// Initial is the limit that is said before anything was measured.
	// +optional
	// +default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Initial int32 `json:"initial,omitempty"`
	// MemoryShare of the memory that a pod requests, or of its limit where it uses more than
	// it requests, is what requests may bring it to; 0.85 unless it says otherwise.
	// +optional
	// +default=0.85
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:ExclusiveMinimum=true
	// +kubebuilder:validation:Maximum=0.95
	MemoryShare float64 `json:"memoryShare,omitempty"`
	// Pod Annotation: the gate is in the workload's template, or in the program. Sidecar: the
	// webhook adds a gate to new pods, before Port. Knative: they are those of a Knative Service.
	// +optional
	// +default="Annotation"
	// +kubebuilder:validation:Enum=Annotation;Sidecar;Knative
	Pod ConcurrencyPod `json:"pod,omitempty"`
	// Port is the name of the container's port that requests come to. In a pod with pod Sidecar
	// the gate has it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	Port string `json:"port,omitempty"`
}

// ConcurrencyPod is where a pod's gate comes from.
type ConcurrencyPod string

// Where a gate comes from.
const (
	PodAnnotation ConcurrencyPod = "Annotation"
	PodSidecar    ConcurrencyPod = "Sidecar"
	PodKnative    ConcurrencyPod = "Knative"
)

// ConcurrencyMode is what is done with what is learned of a pod.
type ConcurrencyMode string

// The modes of concurrency.
const (
	ConcurrencyObserve   ConcurrencyMode = "Observe"
	ConcurrencyRecommend ConcurrencyMode = "Recommend"
	ConcurrencyApply     ConcurrencyMode = "Apply"
)

// AnnotationLimit of a pod is how many requests its gate lets in at once.
const AnnotationLimit = "sigma-scheduler.io/concurrency"

// AnnotationGate of a pod says which gate the webhook has added, or, after [GateRefused], why none.
const (
	AnnotationGate = GroupName + "/gate"
	GateRefused    = "refused: "
)
