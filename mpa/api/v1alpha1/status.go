package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition types. Those of the recommender first.
const (
	// ConditionRecommendation: there is a recommendation; the reason says why not.
	ConditionRecommendation = "RecommendationProvided"
	// ConditionMetrics: usage, and what the SLO is about, are measured and fresh.
	ConditionMetrics = "MetricsAvailable"
	// ConditionActive: the workload is being sized. False where it is missing,
	// switched off with 0 replicas, the spec cannot be carried out, or another
	// autoscaler has the same target.
	ConditionActive = "ScalingActive"
	// ConditionLimited: bounds or guards kept the last decision from what was wanted.
	ConditionLimited = "ScalingLimited"
	// ConditionFallback: the fallback's algorithm decides.
	ConditionFallback = "FallbackActive"

	// ConditionAble: the last recommendation could be carried out; the message is the
	// API server's where it refused.
	ConditionAble = "AbleToScale"
	// ConditionResize: a pod waits for an in-place resize; reason Deferred, Infeasible
	// or InProgress.
	ConditionResize = "ResizePending"
)

// Phase is what is going on.
//
// +kubebuilder:validation:Enum=Starting;Recommending;Scaling;Holding;Fallback;Refused
type Phase string

// The phases.
const (
	// PhaseStarting: nothing was measured yet.
	PhaseStarting Phase = "Starting"
	// PhaseRecommending: mode Off.
	PhaseRecommending Phase = "Recommending"
	// PhaseScaling: the last decision was a change.
	PhaseScaling Phase = "Scaling"
	// PhaseHolding: the last decision was to leave all as it is.
	PhaseHolding Phase = "Holding"
	// PhaseFallback: the fallback's algorithm decides.
	PhaseFallback Phase = "Fallback"
	// PhaseRefused: the object is not acted upon; ScalingActive says why.
	PhaseRefused Phase = "Refused"
)

// MultidimPodAutoscalerStatus is what is done.
type MultidimPodAutoscalerStatus struct {
	// Generation of the spec that the recommender's half is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// Summary of the conditions: the reason of the worst, or OK.
	// +optional
	Summary string `json:"summary,omitempty"`
	// What was measured.
	// +optional
	Observed *Observed `json:"observed,omitempty"`
	// The last decision.
	// +optional
	Decision *Decision `json:"decision,omitempty"`
	// The last change that was decided, for the updater and the admission webhook.
	// +optional
	Recommendation *Recommendation `json:"recommendation,omitempty"`
	// What the guards remember, for a recommender that starts anew.
	// +optional
	Memory *Memory `json:"memory,omitempty"`
	// What became of the recommendation.
	// +optional
	Actuation *Actuation `json:"actuation,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Observed is what was measured of the workload.
type Observed struct {
	// +optional
	Time metav1.Time `json:"time,omitempty"`
	// Replicas in the workload's spec, and those that are ready.
	// +optional
	Replicas int32 `json:"replicas"`
	// +optional
	Ready int32 `json:"ready"`
	// Rate and Throughput in requests per second.
	// +optional
	Rate *resource.Quantity `json:"rate,omitempty"`
	// +optional
	Throughput *resource.Quantity `json:"throughput,omitempty"`
	// Latency at the SLO's percentile.
	// +optional
	Latency *metav1.Duration `json:"latency,omitempty"`
	// SLORatio is the latency as a share of its target, or the throughput's target as a share of it, the
	// larger: above 1 the promise is broken.
	// +optional
	SLORatio string `json:"sloRatio,omitempty"`
}

// Decision is what came of the last observation.
type Decision struct {
	// +optional
	Time metav1.Time `json:"time,omitempty"`
	// Action: Hold, Scale (replicas) or Resize (requests).
	// +optional
	// +kubebuilder:validation:Enum=Hold;Scale;Resize
	Action string `json:"action,omitempty"`
	// Source is the algorithm, or the part of it, that spoke.
	// +optional
	Source string `json:"source,omitempty"`
	// Replicas and Containers are what is wanted, within bounds and guards.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=name
	Containers []ContainerRequests `json:"containers,omitempty"`
	// Reason of the action, or of holding.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Guards that changed or stopped what the algorithm wanted, in order.
	// +optional
	// +listType=atomic
	Guards []string `json:"guards,omitempty"`
}

// ContainerRequests are the requests of one container.
type ContainerRequests struct {
	Name string `json:"name"`
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// Recommendation is a state that the workload shall reach.
type Recommendation struct {
	// ID rises with every recommendation of this object, from 1.
	// +kubebuilder:validation:Minimum=1
	ID int64 `json:"id"`
	// Time of the decision. One that was not carried out within the metrics' maxAge never is.
	Time metav1.MicroTime `json:"time"`
	// Change is what differs from before: Replicas or Requests.
	// +kubebuilder:validation:Enum=Replicas;Requests
	Change   Change `json:"change"`
	Replicas int32  `json:"replicas"`
	// From is how many replicas there were when it was decided; 0 does not say. From
	// another number they are not changed.
	// +optional
	From int32 `json:"from,omitempty"`
	// Containers are the requests of each listed container; new pods get them too.
	// +optional
	// +listType=map
	// +listMapKey=name
	Containers []ContainerRequests `json:"containers,omitempty"`
	// +optional
	Reason string `json:"reason,omitempty"`
}

// Change is one dimension of a workload.
type Change string

// The dimensions.
const (
	ChangeReplicas Change = "Replicas"
	ChangeRequests Change = "Requests"
)

// Memory is what the guards remember.
type Memory struct {
	// Time of the last observation that was remembered.
	Time metav1.MicroTime `json:"time"`
	// Blind is when usage was missing last that had been known before.
	// +optional
	Blind *metav1.MicroTime `json:"blind,omitempty"`
	// Times of the changes of the last hour.
	// +optional
	// +listType=atomic
	ReplicaChanges []metav1.MicroTime `json:"replicaChanges,omitempty"`
	// +optional
	// +listType=atomic
	RequestChanges []metav1.MicroTime `json:"requestChanges,omitempty"`
	// Asked: the recommendation is not seen to be carried out yet.
	// +optional
	Asked bool `json:"asked,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=name
	Containers []ContainerMemory `json:"containers,omitempty"`
}

// ContainerMemory is what is remembered of a container over all pods.
type ContainerMemory struct {
	Name string `json:"name"`
	// Peaks of its memory, each larger than all after it.
	// +optional
	// +listType=atomic
	Peaks []Peak `json:"peaks,omitempty"`
	// Ceiling is what a node gave when it could not give more.
	// +optional
	Ceiling *Ceiling `json:"ceiling,omitempty"`
}

// Peak is a large use of memory.
type Peak struct {
	Memory resource.Quantity `json:"memory"`
	Time   metav1.MicroTime  `json:"time"`
}

// Ceiling is what a node gave when it could not give more.
type Ceiling struct {
	CPU    resource.Quantity `json:"cpu"`
	Memory resource.Quantity `json:"memory"`
	Time   metav1.MicroTime  `json:"time"`
}

// Actuation is what became of a recommendation.
type Actuation struct {
	// ID of the recommendation.
	ID int64 `json:"id"`
	// Outcome: Applied; Partly, begun and not finished; Refused by the API server, the nodes
	// or the updater; Expired, too old when it was seen; Superseded, since somebody else
	// changed the replicas meanwhile.
	// +kubebuilder:validation:Enum=Applied;Partly;Refused;Expired;Superseded
	Outcome Outcome `json:"outcome"`
	// +optional
	Message string `json:"message,omitempty"`
	// +optional
	Time metav1.MicroTime `json:"time,omitempty"`
	// Pods by how far their resize has come.
	// +optional
	Resized int32 `json:"resized,omitempty"`
	// +optional
	InProgress int32 `json:"inProgress,omitempty"`
	// +optional
	Deferred int32 `json:"deferred,omitempty"`
	// +optional
	Infeasible int32 `json:"infeasible,omitempty"`
	// +optional
	Evicted int32 `json:"evicted,omitempty"`
	// From is how many replicas there were when a change of them was begun.
	// +optional
	From int32 `json:"from,omitempty"`
	// Scalings and Resizes are the times of what was decided and begun in the last hour.
	// +optional
	// +listType=atomic
	Scalings []metav1.MicroTime `json:"scalings,omitempty"`
	// +optional
	// +listType=atomic
	Resizes []metav1.MicroTime `json:"resizes,omitempty"`
	// +optional
	Sizes *Sizes `json:"sizes,omitempty"`
}

// Sizes are the last requests that were carried out. A pod that came without them
// gets them later, as long as the recommendation and the workload's template are the same.
type Sizes struct {
	// ID of the recommendation.
	ID int64 `json:"id"`
	// Time at which it was begun; no younger pod is evicted for it.
	Time metav1.MicroTime `json:"time"`
	// Template is a digest of the requests and limits that the workload's template had for
	// these containers at that time.
	Template string `json:"template"`
	// +optional
	// +listType=map
	// +listMapKey=name
	Containers []ContainerRequests `json:"containers,omitempty"`
}

// Outcome of a recommendation.
type Outcome string

// The outcomes.
const (
	OutcomeApplied    Outcome = "Applied"
	OutcomePartly     Outcome = "Partly"
	OutcomeRefused    Outcome = "Refused"
	OutcomeExpired    Outcome = "Expired"
	OutcomeSuperseded Outcome = "Superseded"
)
