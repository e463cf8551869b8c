package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition types, the recommender's first.
const (
	// ConditionRecommendation: there is a recommendation; if not, the reason is given.
	ConditionRecommendation = "RecommendationProvided"
	// ConditionMetrics: usage and the SLO's metrics are measured and fresh.
	ConditionMetrics = "MetricsAvailable"
	// ConditionActive: the workload is being sized. False if it is missing or switched off
	// with 0 replicas, if the spec cannot be carried out, or if another autoscaler has the
	// same target.
	ConditionActive = "ScalingActive"
	// ConditionLimited: bounds or guards limited the last decision.
	ConditionLimited = "ScalingLimited"
	// ConditionFallback: the fallback's algorithm decides.
	ConditionFallback = "FallbackActive"
	// ConditionRetraining: the workload has changed since the policy of the algorithm learned
	// began to serve it, so that one that is trained on its journal may serve it better.
	ConditionRetraining = "Retraining"
	// ConditionWebhook: the API server reaches the webhook that sizes new pods. In modes
	// other than Off.
	ConditionWebhook = "WebhookReached"
	// ConditionGate: the pods have the gate that spec.concurrency.pod Sidecar requires.
	ConditionGate = "GateInjected"

	// ConditionAble: the last recommendation could be carried out; if the API server refused,
	// the message is the server's.
	ConditionAble = "AbleToScale"
	// ConditionResize: a pod waits for an in-place resize; the reason is Deferred, Infeasible
	// or InProgress.
	ConditionResize = "ResizePending"
)

// Phase sums up the state of an object.
//
// +kubebuilder:validation:Enum=Starting;Recommending;Scaling;Holding;Fallback;Refused
type Phase string

// The phases.
const (
	// PhaseStarting: no measurement yet.
	PhaseStarting Phase = "Starting"
	// PhaseRecommending: mode Off.
	PhaseRecommending Phase = "Recommending"
	// PhaseScaling: the last decision was a change.
	PhaseScaling Phase = "Scaling"
	// PhaseHolding: the last decision was no change.
	PhaseHolding Phase = "Holding"
	// PhaseFallback: the fallback's algorithm decides.
	PhaseFallback Phase = "Fallback"
	// PhaseRefused: no decisions are made for the object; ScalingActive has the reason.
	PhaseRefused Phase = "Refused"
)

// MultidimPodAutoscalerStatus is the observed state.
type MultidimPodAutoscalerStatus struct {
	// Generation of the spec to which the recommender's part of the status belongs.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// Summary of the conditions: the reason of the worst, or OK.
	// +optional
	Summary string `json:"summary,omitempty"`
	// The last measurements.
	// +optional
	Observed *Observed `json:"observed,omitempty"`
	// The last decision.
	// +optional
	Decision *Decision `json:"decision,omitempty"`
	// Trust in the policy of the algorithm learned.
	// +optional
	Learning *LearningStatus `json:"learning,omitempty"`
	// Retraining after the last change of the workload that the algorithm learned detected.
	// +optional
	Retraining *RetrainingStatus `json:"retraining,omitempty"`
	// The learned capacity of one pod.
	// +optional
	Concurrency *ConcurrencyStatus `json:"concurrency,omitempty"`
	// The part of the learned capacity that a Knative Service has.
	// +optional
	Knative *KnativeStatus `json:"knative,omitempty"`
	// The last change decided, for the updater and the admission webhook.
	// +optional
	Recommendation *Recommendation `json:"recommendation,omitempty"`
	// The guards' memory, for a recommender that restarts.
	// +optional
	Memory *Memory `json:"memory,omitempty"`
	// Progress of the recommendation.
	// +optional
	Actuation *Actuation `json:"actuation,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Observed holds the measurements of the workload.
type Observed struct {
	// +optional
	Time metav1.Time `json:"time,omitempty"`
	// Replicas in the workload's spec, and Ready the number of pods that are ready.
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
	// SLORatio is the latency as a share of its target, or the throughput's target as a share of
	// the throughput, whichever is larger: above 1 the promise is broken.
	// +optional
	SLORatio string `json:"sloRatio,omitempty"`
}

// Decision is the decision after the last observation.
type Decision struct {
	// +optional
	Time metav1.Time `json:"time,omitempty"`
	// Action: Hold, Scale (replicas), Resize (requests) or Limit (requests at once in a pod).
	// +optional
	// +kubebuilder:validation:Enum=Hold;Scale;Resize;Limit
	Action string `json:"action,omitempty"`
	// Source is the algorithm, or the part of it, that decided.
	// +optional
	Source string `json:"source,omitempty"`
	// PolicyDigest is that of the ScalingPolicy with which the algorithm learned decided.
	// +optional
	PolicyDigest string `json:"policyDigest,omitempty"`
	// Replicas and Containers are the desired state, within bounds and guards.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=name
	Containers []ContainerRequests `json:"containers,omitempty"`
	// Reason of the action, or of holding.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Guards that changed or stopped the algorithm's recommendation, in order.
	// +optional
	// +listType=atomic
	Guards []string `json:"guards,omitempty"`
}

// LearningStatus is the trust in a policy, with its reasons. Objectives are costs ÷ that of
// the rules plus a price of broken promises, lower is better.
type LearningStatus struct {
	// +kubebuilder:validation:Enum=OfflineTraining;OnlineTraining;Serving
	Phase string `json:"phase"`
	// Since is the begin of the phase, and Changes the number of its changes.
	// +optional
	Since *metav1.MicroTime `json:"since,omitempty"`
	// +optional
	Changes int64 `json:"changes,omitempty"`
	// PolicyDigest is that of the ScalingPolicy.
	// +optional
	PolicyDigest string `json:"policyDigest,omitempty"`
	// Window whose load judges.
	// +optional
	Window *metav1.Duration `json:"window,omitempty"`
	// Judged is the time of the last comparison of the policy with the rules.
	// +optional
	Judged *metav1.MicroTime `json:"judged,omitempty"`
	// Missing is the reason that it could not be compared then.
	// +optional
	Missing string `json:"missing,omitempty"`
	// Rules and Policy are the mean objectives of Runs simulations.
	// +optional
	Rules string `json:"rules,omitempty"`
	// +optional
	Policy string `json:"policy,omitempty"`
	// RulesBroken and PolicyBroken count the runs in which the promise was broken.
	// +optional
	RulesBroken int32 `json:"rulesBroken,omitempty"`
	// +optional
	PolicyBroken int32 `json:"policyBroken,omitempty"`
	// +optional
	Runs int32 `json:"runs,omitempty"`
	// Shadow is the recommendation of the agent that does not act.
	// +optional
	Shadow *Shadow `json:"shadow,omitempty"`
}

// RetrainingStatus records a change of the workload since the policy began, and the reaction: a
// Job trains a policy on the journal, and a better one replaces the spec's policy, from the
// phase OfflineTraining on.
type RetrainingStatus struct {
	// Alarm is the time of the last detected change of the workload, and Change the property
	// that changed.
	// +optional
	Alarm *metav1.MicroTime `json:"alarm,omitempty"`
	// +optional
	Change string `json:"change,omitempty"`
	// PolicyDigest is that of the policy in use at the alarm.
	// +optional
	PolicyDigest string `json:"policyDigest,omitempty"`
	// Job is the last one, in the recommender's namespace, for the last alarm before Started.
	// +optional
	Job string `json:"job,omitempty"`
	// +optional
	Started *metav1.MicroTime `json:"started,omitempty"`
	// Ended is the time at which the recommender saw the result.
	// +optional
	Ended *metav1.MicroTime `json:"ended,omitempty"`
	// Outcome: Taken; NotBetter than the policy that serves; Failed; TimedOut; TakenBack,
	// taken and then found worse than the rules.
	// +optional
	// +kubebuilder:validation:Enum=Taken;NotBetter;Failed;TimedOut;TakenBack
	Outcome string `json:"outcome,omitempty"`
	// Message has the figures, or the error.
	// +optional
	Message string `json:"message,omitempty"`
	// Candidate is the policy that replaces the spec's.
	// +optional
	Candidate *Candidate `json:"candidate,omitempty"`
}

// Candidate is a ScalingPolicy that replaces another one, until that one changes or this one
// is deleted.
type Candidate struct {
	Policy string `json:"policy"`
	Digest string `json:"digest"`
	// Of is the name in the spec, and OfDigest the digest of that policy.
	Of string `json:"of"`
	// +optional
	OfDigest string `json:"ofDigest,omitempty"`
}

// Shadow is a recommendation that does not act.
type Shadow struct {
	// Source is the algorithm.
	// +optional
	Source string `json:"source,omitempty"`
	// Replicas recommended; 0 = no other number.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// Containers are the recommended requests; empty = no others.
	// +optional
	// +listType=map
	// +listMapKey=name
	Containers []ContainerRequests `json:"containers,omitempty"`
	// Limit of requests at once in a pod, where that changes.
	// +optional
	Limit int32 `json:"limit,omitempty"`
	// +optional
	Reason string `json:"reason,omitempty"`
}

// ContainerRequests are the requests of one container.
type ContainerRequests struct {
	Name string `json:"name"`
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// Recommendation is the state that the workload should reach.
type Recommendation struct {
	// ID rises with every recommendation of this object, from 1.
	// +kubebuilder:validation:Minimum=1
	ID int64 `json:"id"`
	// Time of the decision. A recommendation expires after the metrics' maxAge.
	Time metav1.MicroTime `json:"time"`
	// Change is the changed dimension: Replicas, Requests or Limit.
	// +kubebuilder:validation:Enum=Replicas;Requests;Limit
	Change   Change `json:"change"`
	Replicas int32  `json:"replicas"`
	// From is the number of replicas at the decision; 0 = unknown. Replicas are changed only
	// from this number.
	// +optional
	From int32 `json:"from,omitempty"`
	// Containers are the requests of each listed container; new pods get them too.
	// +optional
	// +listType=map
	// +listMapKey=name
	Containers []ContainerRequests `json:"containers,omitempty"`
	// Limit of requests at once in a pod, where that changes.
	// +optional
	Limit int32 `json:"limit,omitempty"`
	// +optional
	Reason string `json:"reason,omitempty"`
}

// Change is one dimension of a workload.
type Change string

// The dimensions.
const (
	ChangeReplicas Change = "Replicas"
	ChangeRequests Change = "Requests"
	ChangeLimit    Change = "Limit"
)

// Memory is the guards' memory.
type Memory struct {
	// Time of the last observation in it.
	Time metav1.MicroTime `json:"time"`
	// Blind is the last time at which usage that had been measured before was missing.
	// +optional
	Blind *metav1.MicroTime `json:"blind,omitempty"`
	// Times of the changes of the last hour.
	// +optional
	// +listType=atomic
	ReplicaChanges []metav1.MicroTime `json:"replicaChanges,omitempty"`
	// +optional
	// +listType=atomic
	RequestChanges []metav1.MicroTime `json:"requestChanges,omitempty"`
	// CPUChanges are those of RequestChanges that changed cpu alone.
	// +optional
	// +listType=atomic
	CPUChanges []metav1.MicroTime `json:"cpuChanges,omitempty"`
	// +optional
	// +listType=atomic
	LimitChanges []metav1.MicroTime `json:"limitChanges,omitempty"`
	// Asked is true until the recommendation has been observed to be carried out.
	// +optional
	Asked bool `json:"asked,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=name
	Containers []ContainerMemory `json:"containers,omitempty"`
	// Template has the requests of the workload's template that the algorithm usage began with, and
	// TemplateGeneration the spec's generation at that time.
	// +optional
	// +listType=map
	// +listMapKey=name
	Template []ContainerRequests `json:"template,omitempty"`
	// +optional
	TemplateGeneration int64 `json:"templateGeneration,omitempty"`
}

// ContainerMemory is the guards' memory of a container, over all pods.
type ContainerMemory struct {
	Name string `json:"name"`
	// Peaks of its memory usage, each larger than all later ones.
	// +optional
	// +listType=atomic
	Peaks []Peak `json:"peaks,omitempty"`
	// Ceiling holds the resources that pods had when nodes could not grant more to most.
	// +optional
	Ceiling *Ceiling `json:"ceiling,omitempty"`
}

// Peak is a peak of memory usage.
type Peak struct {
	Memory resource.Quantity `json:"memory"`
	Time   metav1.MicroTime  `json:"time"`
}

// Ceiling holds the resources that pods had when nodes could not grant more to most; one without is
// left out.
type Ceiling struct {
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
	Time   metav1.MicroTime   `json:"time"`
}

// Actuation is the progress of a recommendation.
type Actuation struct {
	// ID of the recommendation.
	ID int64 `json:"id"`
	// Outcome: Applied; Partly, begun and not finished; Refused by the API server, the nodes
	// or the updater; Expired, too old when the updater saw it; Superseded by a later
	// recommendation or by another writer's change.
	// +kubebuilder:validation:Enum=Applied;Partly;Refused;Expired;Superseded
	Outcome Outcome `json:"outcome"`
	// +optional
	Message string `json:"message,omitempty"`
	// +optional
	Time metav1.MicroTime `json:"time,omitempty"`
	// Numbers of pods by the state of their resize.
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
	// From is the number of replicas when a change of them began.
	// +optional
	From int32 `json:"from,omitempty"`
	// Scalings and Resizes are the times of the decisions carried out in the last hour.
	// +optional
	// +listType=atomic
	Scalings []metav1.MicroTime `json:"scalings,omitempty"`
	// +optional
	// +listType=atomic
	Resizes []metav1.MicroTime `json:"resizes,omitempty"`
	// +optional
	Sizes *Sizes `json:"sizes,omitempty"`
	// +optional
	Limit *LimitInForce `json:"limit,omitempty"`
}

// Sizes are the last requests that were carried out. A pod that was created without them
// gets them later, as long as the recommendation and the workload's template stay the same.
type Sizes struct {
	// ID of the recommendation.
	ID int64 `json:"id"`
	// Time at which the change began; only pods from before it are evicted.
	Time metav1.MicroTime `json:"time"`
	// Template is a digest of these containers' requests and limits in the workload's template
	// at that time.
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
