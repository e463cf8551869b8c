package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Field owners of the status, one for each of its halves.
const (
	OwnerRecommender = "sigma-mpa-recommender"
	OwnerUpdater     = "sigma-mpa-updater"
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

// MultidimPodAutoscaler sizes a workload: replicas and requests together.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=mpa
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.spec.scaleTargetRef.name`,priority=1
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=`.status.decision.source`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.observed.replicas`
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.status.decision.replicas`
// +kubebuilder:printcolumn:name="CPU",type=string,JSONPath=`.status.decision.containers[0].cpu`,description="Of the first container"
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.status.decision.containers[0].memory`,description="Of the first container"
// +kubebuilder:printcolumn:name="SLO",type=string,JSONPath=`.status.observed.sloRatio`,description="Latency as a share of what is promised; above 1 the promise is broken"
// +kubebuilder:printcolumn:name="Condition",type=string,JSONPath=`.status.summary`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name: at most 63 characters"
type MultidimPodAutoscaler struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is wanted.
	// +required
	Spec MultidimPodAutoscalerSpec `json:"spec"`
	// What is done.
	// +optional
	Status MultidimPodAutoscalerStatus `json:"status,omitempty"`
}

// MultidimPodAutoscalerSpec says which workload is sized, and how.
//
// +kubebuilder:validation:XValidation:fieldPath=".metrics",rule="!has(self.slo) || has(self.metrics.prometheus)",message="an SLO is measured by Prometheus: metrics.prometheus is missing"
// +kubebuilder:validation:XValidation:fieldPath=".metrics",rule="!has(self.slo) || !has(self.slo.latency) || (has(self.metrics.prometheus) && has(self.metrics.prometheus.queries.latency))",message="slo.latency needs metrics.prometheus.queries.latency"
// +kubebuilder:validation:XValidation:fieldPath=".metrics",rule="!has(self.slo) || !has(self.slo.throughput) || (has(self.metrics.prometheus) && has(self.metrics.prometheus.queries.throughput))",message="slo.throughput needs metrics.prometheus.queries.throughput"
type MultidimPodAutoscalerSpec struct {
	// The workload: a Deployment or a StatefulSet of the same namespace.
	// +required
	ScaleTargetRef TargetReference `json:"scaleTargetRef"`

	// Off, in quotes since YAML takes it for false: recommends, changes nothing. Initial: changes replicas, and the requests of
	// new pods only. InPlace: also resizes running pods in place. InPlaceOrRecreate:
	// also evicts a pod that could not be resized. Recreate: changes
	// running pods by eviction only.
	// +optional
	// +default="InPlaceOrRecreate"
	Mode Mode `json:"mode,omitempty"`

	// What the workload promises. Without it only usage counts.
	// +optional
	SLO *SLO `json:"slo,omitempty"`

	// How usage and load are measured.
	// +optional
	// +default={"usage":"MetricsAPI"}
	Metrics Metrics `json:"metrics,omitempty"`

	// What the workload may have.
	// +required
	Constraints Constraints `json:"constraints"`

	// Who decides.
	// +optional
	// +default={}
	Recommender Recommender `json:"recommender,omitempty"`

	// Who decides while the algorithm cannot.
	// +optional
	Fallback *Fallback `json:"fallback,omitempty"`
}

// TargetReference names the workload.
//
// +kubebuilder:validation:XValidation:rule="self.apiVersion == 'apps/v1' && self.kind in ['Deployment', 'StatefulSet']",message="want a Deployment or a StatefulSet of apps/v1"
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the target cannot be changed: make another object"
type TargetReference struct {
	// +optional
	// +default="apps/v1"
	// +kubebuilder:validation:MaxLength=64
	APIVersion string `json:"apiVersion,omitempty"`
	// +required
	// +kubebuilder:validation:MaxLength=64
	Kind string `json:"kind"`
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Mode is how much is changed.
//
// +kubebuilder:validation:Enum=Off;Initial;InPlace;InPlaceOrRecreate;Recreate
type Mode string

// The modes.
const (
	ModeOff               Mode = "Off"
	ModeInitial           Mode = "Initial"
	ModeInPlace           Mode = "InPlace"
	ModeInPlaceOrRecreate Mode = "InPlaceOrRecreate"
	ModeRecreate          Mode = "Recreate"
)

// SLO is what the workload promises.
//
// +kubebuilder:validation:XValidation:rule="has(self.latency) || has(self.throughput)",message="want latency, throughput or both"
type SLO struct {
	// +optional
	Latency *LatencySLO `json:"latency,omitempty"`
	// +optional
	Throughput *ThroughputSLO `json:"throughput,omitempty"`
}

// LatencySLO promises a percentile of latency.
type LatencySLO struct {
	// Percentile, such as 99 or 99.9.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=99.99
	Percentile float64 `json:"percentile"`
	// Target that it stays below, such as 250ms.
	// +required
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="self >= duration('1ms') && self <= duration('10m')",message="want 1ms to 10m"
	Target metav1.Duration `json:"target"`
}

// ThroughputSLO promises answers per second.
type ThroughputSLO struct {
	// Target in requests per second that are answered while as many are asked for.
	// +required
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="want more than 0"
	Target resource.Quantity `json:"target"`
}

// Metrics says how usage and load are measured.
//
// +kubebuilder:validation:XValidation:fieldPath=".prometheus",rule="self.usage != 'Prometheus' || has(self.prometheus)",message="usage from Prometheus needs its address"
type Metrics struct {
	// Usage of containers comes from the metrics API or from Prometheus.
	// +optional
	// +default="MetricsAPI"
	// +kubebuilder:validation:Enum=MetricsAPI;Prometheus
	Usage UsageSource `json:"usage,omitempty"`
	// Prometheus that knows the workload's load.
	// +optional
	Prometheus *Prometheus `json:"prometheus,omitempty"`
	// MaxAge of what is decided upon.
	// +optional
	// +default="2m"
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="self >= duration('10s') && self <= duration('10m')",message="want 10s to 10m"
	MaxAge *metav1.Duration `json:"maxAge,omitempty"`
}

// UsageSource is where the usage of containers comes from.
type UsageSource string

// The sources.
const (
	UsageMetricsAPI UsageSource = "MetricsAPI"
	UsagePrometheus UsageSource = "Prometheus"
)

// Prometheus is a server and what it is asked.
type Prometheus struct {
	// Address, such as http://prometheus.monitoring:9090.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHost() != ''",message="want an http or https URL"
	Address string `json:"address"`
	// +optional
	// +default={}
	Queries Queries `json:"queries,omitempty"`
}

// Queries in PromQL. $namespace, $name (of the target) and $pods (a regular
// expression of the names of its pods) are filled in.
type Queries struct {
	// Rate of requests that come in, per second, in one number.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Rate string `json:"rate,omitempty"`
	// Latency at the SLO's percentile, in seconds, in one number.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Latency string `json:"latency,omitempty"`
	// Throughput: requests answered per second, in one number.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Throughput string `json:"throughput,omitempty"`
	// CPU in cores and Memory in bytes, in one number for each container, with the
	// labels pod and container. Only for usage from Prometheus; left out: those of the kubelet.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	CPU string `json:"cpu,omitempty"`
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Memory string `json:"memory,omitempty"`
}

// Constraints are what the workload may have.
type Constraints struct {
	// +required
	Replicas ReplicaRange `json:"replicas"`
	// Containers that are sized. Those that are not listed keep their requests.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Containers []ContainerConstraints `json:"containers,omitempty"`
}

// ReplicaRange is from Min to Max.
//
// +kubebuilder:validation:XValidation:fieldPath=".max",rule="self.min <= self.max",message="max is below min"
type ReplicaRange struct {
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	Min int32 `json:"min,omitempty"`
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	Max int32 `json:"max"`
}

// ContainerConstraints are what the requests of one container may be. Limits keep their
// ratio to them.
//
// +kubebuilder:validation:XValidation:fieldPath=".maxAllowed",rule="!has(self.minAllowed.cpu) || !has(self.maxAllowed.cpu) || quantity(string(self.minAllowed.cpu)).compareTo(quantity(string(self.maxAllowed.cpu))) <= 0",message="cpu is below minAllowed"
// +kubebuilder:validation:XValidation:fieldPath=".maxAllowed",rule="!has(self.minAllowed.memory) || !has(self.maxAllowed.memory) || quantity(string(self.minAllowed.memory)).compareTo(quantity(string(self.maxAllowed.memory))) <= 0",message="memory is below minAllowed"
type ContainerConstraints struct {
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Resources that are changed.
	// +optional
	// +default=["cpu","memory"]
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:Enum=cpu;memory
	Controlled []corev1.ResourceName `json:"controlled,omitempty"`
	// +optional
	// +default={"cpu":"25m","memory":"64Mi"}
	MinAllowed Amounts `json:"minAllowed,omitempty"`
	// +optional
	// +default={"cpu":"16","memory":"64Gi"}
	MaxAllowed UpperAmounts `json:"maxAllowed,omitempty"`
}

// Amounts of both resources.
type Amounts struct {
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0')) && quantity(string(self)).compareTo(quantity('100k')) <= 0",message="want more than 0 and at most 100k"
	CPU *resource.Quantity `json:"cpu,omitempty"`
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0')) && quantity(string(self)).compareTo(quantity('1Pi')) <= 0",message="want more than 0 and at most 1Pi"
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// UpperAmounts are never without a number: nothing grows without end.
type UpperAmounts struct {
	// +optional
	// +default="16"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0')) && quantity(string(self)).compareTo(quantity('100k')) <= 0",message="want more than 0 and at most 100k"
	CPU *resource.Quantity `json:"cpu,omitempty"`
	// +optional
	// +default="64Gi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0')) && quantity(string(self)).compareTo(quantity('1Pi')) <= 0",message="want more than 0 and at most 1Pi"
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// Recommender is who decides.
type Recommender struct {
	// Name of the recommender that looks after this object. Another program that writes
	// status.recommendation goes by another name; ours leaves the object to it.
	// +optional
	// +default="default"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
	// Algorithm by its name in that recommender.
	// +optional
	// +default="hpa+vpa"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Algorithm string `json:"algorithm,omitempty"`
}

// Fallback is who decides while the algorithm has no opinion, because it lacks what
// it goes by or is still learning. On missing usage nobody decides.
type Fallback struct {
	// +optional
	// +default="hpa+vpa"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Algorithm string `json:"algorithm,omitempty"`
	// After how long without an opinion.
	// +optional
	// +default="3m"
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="self >= duration('0s') && self <= duration('1h')",message="want 0s to 1h"
	After *metav1.Duration `json:"after,omitempty"`
}

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

// MultidimPodAutoscalerList is a list of autoscalers.
//
// +kubebuilder:object:root=true
type MultidimPodAutoscalerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MultidimPodAutoscaler `json:"items"`
}
