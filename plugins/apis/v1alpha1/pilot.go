package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ApprovedAnnotation of a PolicyPilot holds the digest of the candidate that a person has approved:
// `sigma pilot approve` writes it.
const ApprovedAnnotation = GroupName + "/approved"

// PilotReport names the ConfigMap, in the namespace of sigma-pilot, with the page of a PolicyPilot
// under PilotReportKey.
func PilotReport(pilot string) string { return "sigma-pilot-" + pilot }

// PilotReportKey is the file of the page.
const PilotReportKey = "report.html"

// Condition types of a PolicyPilot, in addition to ConditionAccepted.
const (
	// ConditionRecording: the decision log can be read, and its newest whole day has no gap.
	ConditionRecording = "Recording"
	// ConditionMeasured: the guard has a fresh value for each of its limits.
	ConditionMeasured = "Measured"
)

// PolicyPilot renews a PlacementPolicy: it trains on the recorded days, judges on later ones, promotes
// the new policy through shadow and canary to live, and rolls it back when a limit is broken.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.spec.policy`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Step",type=string,JSONPath=`.status.step`
// +kubebuilder:printcolumn:name="Promised",type=string,JSONPath=`.status.promised.text`
// +kubebuilder:printcolumn:name="Realised",type=string,JSONPath=`.status.realised.text`
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Why",type=string,JSONPath=`.status.reasons[0]`,priority=1
type PolicyPilot struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The policy to renew, and the settings.
	// +required
	Spec PolicyPilotSpec `json:"spec"`
	// The state of the loop.
	// +optional
	Status PolicyPilotStatus `json:"status,omitempty"`
}

// PilotApproval determines who approves a candidate that passed the gate.
//
// +kubebuilder:validation:Enum=Manual;Auto;Recommend
type PilotApproval string

// The approvals.
const (
	PilotManual    PilotApproval = "Manual"
	PilotAuto      PilotApproval = "Auto"
	PilotRecommend PilotApproval = "Recommend"
)

// PolicyPilotSpec holds the policy to renew, and the settings.
//
// +kubebuilder:validation:XValidation:fieldPath=".approval",rule="!has(self.approval) || self.approval != 'Auto' || has(self.gate)",message="Auto needs a gate: nothing else would hold a bad policy back"
// +kubebuilder:validation:XValidation:fieldPath=".record.days",rule="!has(self.record) || !has(self.record.days) || !has(self.train) || !has(self.train.history) || self.record.days >= self.train.history",message="want at least train.history"
// +kubebuilder:validation:XValidation:fieldPath=".candidate",rule="!has(self.candidate) || self.candidate != self.policy",message="the candidate is another PlacementPolicy than the one that is steered"
type PolicyPilotSpec struct {
	// The PlacementPolicy to renew. The scheduler names it as policyName.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=200
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a pilot keeps its policy: make another PolicyPilot"
	Policy string `json:"policy"`

	// The PlacementPolicy that holds a new policy until it is live. The scheduler names it as
	// canaryPolicyName. Default: the name of the policy with the suffix -candidate.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Candidate string `json:"candidate,omitempty"`

	// Settings of the recording.
	// +optional
	// +kubebuilder:default={}
	Record PilotRecord `json:"record,omitempty"`

	// Settings of the trainings.
	// +optional
	// +kubebuilder:default={}
	Train PilotTraining `json:"train,omitempty"`

	// The rule that represents the scheduler's own scores while no policy is live: a built-in name.
	// +optional
	// +kubebuilder:default=mostallocated
	// +kubebuilder:validation:MaxLength=64
	Baseline string `json:"baseline,omitempty"`

	// The built-in rules that a candidate must not be worse than, in addition to the active policy.
	// +optional
	// +kubebuilder:default={mostallocated}
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=64
	// +listType=set
	Against []string `json:"against,omitempty"`

	// The requirements for a candidate on the test days. Without it every candidate that could be
	// judged waits for approval.
	// +optional
	Gate *PilotGate `json:"gate,omitempty"`

	// The steps from the first to live.
	// +optional
	// +kubebuilder:default={{mode: shadow, for: "48h"}, {mode: canary, percent: 10, for: "48h"}, {mode: canary, percent: 50, for: "48h"}, {mode: live, for: "48h"}}
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self[self.size() - 1].mode == 'live'",message="want steps that end with live"
	// +kubebuilder:validation:XValidation:rule="self.map(s, s.mode == 'shadow' ? 0 : s.mode == 'live' ? 100 : has(s.percent) ? s.percent : 0).isSorted() && self.all(s, self.exists_one(t, t.mode == s.mode && (has(t.percent) ? t.percent : 0) == (has(s.percent) ? s.percent : 0)))",message="each step has to decide more than the step before"
	Rollout []PilotStep `json:"rollout,omitempty"`

	// The limits that a policy must keep while it is in the cluster. If one is broken, the last
	// good policy is restored at once.
	// +optional
	// +kubebuilder:default={}
	Guard PilotGuard `json:"guard,omitempty"`

	// Manual: a candidate that passed the gate waits for `sigma pilot approve`. Auto: the gate alone
	// approves it. Recommend: nothing is written to a PlacementPolicy.
	// +optional
	// +kubebuilder:default=Manual
	Approval PilotApproval `json:"approval,omitempty"`
}

// PilotRecord holds the settings of the recording.
type PilotRecord struct {
	// The scheduler's decision log, as a path below the volume of sigma-pilot.
	// +optional
	// +kubebuilder:default="decisions.jsonl"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && self.split('/').all(p, p != '..')",message="want a path below the volume"
	Log string `json:"log,omitempty"`

	// The number of days without a gap that are kept, whole ones of UTC. Older ones are removed. Default: 60, or as many
	// as train needs if that is more.
	// +optional
	// +kubebuilder:validation:Minimum=4
	// +kubebuilder:validation:Maximum=400
	Days int32 `json:"days,omitempty"`

	// The most bytes of the days on the volume. Beyond it the oldest days are removed, even if they are fewer
	// than days.
	// +optional
	// +kubebuilder:default="4Gi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('1Mi'))",message="want more than 1Mi"
	Size *resource.Quantity `json:"size,omitempty"`
}

// PilotGate holds the requirements for a candidate on the test days.
type PilotGate struct {
	// The least saving against the active policy, in percent of the cost of the nodes in use.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=99
	SavingPercent float64 `json:"savingPercent,omitempty"`

	// The least share of the bootstrap over days in which at least that much is saved.
	// +optional
	// +kubebuilder:default=0.95
	// +kubebuilder:validation:Minimum=0.5
	// +kubebuilder:validation:Maximum=0.999
	Confidence float64 `json:"confidence,omitempty"`

	// The number of pods without a place on arrival that is allowed in excess of that under the active policy.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Unplaced int32 `json:"unplaced,omitempty"`

	// The percentage by which pods may wait longer than under the active policy.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	WaitPercent float64 `json:"waitPercent,omitempty"`

	// The most pods of one app on a node, all of which are lost with the node. 0 = any number.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	PodsOfOneApp int32 `json:"podsOfOneApp,omitempty"`
}

// PilotStep is a step of a rollout.
//
// +kubebuilder:validation:XValidation:fieldPath=".percent",rule="(self.mode == 'canary') == has(self.percent)",message="a canary has a percent, and no other step has one"
// +kubebuilder:validation:XValidation:fieldPath=".for",rule="self.mode == 'live' || has(self.__for__)",message="want a time for every step but live"
type PilotStep struct {
	// shadow: the policy decides nothing. canary: it decides for a share of the workloads. live: it decides.
	// +required
	// +kubebuilder:validation:Enum=shadow;canary;live
	Mode string `json:"mode"`

	// The share of the workloads of a canary.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=99
	Percent int32 `json:"percent,omitempty"`

	// The least time in the step, 1s to 2160h.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="self >= duration('1s') && self <= duration('2160h')",message="want 1s to 2160h"
	For string `json:"for,omitempty"`
}

// PilotGuard holds the limits that a policy must keep while it is in the cluster.
type PilotGuard struct {
	// The interval of the measurements, 1m to 24h. A measurement older than twice that does not promote
	// a policy.
	// +optional
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="self >= duration('1m') && self <= duration('24h')",message="want 1m to 24h"
	Every string `json:"every,omitempty"`

	// The time without trainings after a rollback of a policy, 0s to 2160h.
	// +optional
	// +kubebuilder:default="24h"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="self >= duration('0s') && self <= duration('2160h')",message="want 0s to 2160h"
	Rest string `json:"rest,omitempty"`

	// The share of the policy's decisions within the last hour that fell back to Best-Fit.
	// +optional
	// +kubebuilder:default=0.01
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1
	FallbackShare *float64 `json:"fallbackShare,omitempty"`

	// The 99th percentile of the time that pods waited for a node within the last hour, including those
	// that wait now, 0s to 24h.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="self >= duration('0s') && self <= duration('24h')",message="want 0s to 24h"
	PendingP99 string `json:"pendingP99,omitempty"`

	// Nodes, or zones, that hold pods against a PlacementRule.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	RuleConflicts *int32 `json:"ruleConflicts,omitempty"`

	// Empty nodes that the policy's decisions of the last day took ÷ those that Best-Fit would have taken
	// instead, with five added to both. In shadow both are replayed.
	// +optional
	// +kubebuilder:validation:Minimum=0.5
	// +kubebuilder:validation:Maximum=10
	OpenedVsBestFit *float64 `json:"openedVsBestFit,omitempty"`

	// Cost of the nodes in use since the step began ÷ that under Best-Fit, which is replayed. In shadow and
	// as a canary, where the policy does not decide on all pods, both are replayed.
	// +optional
	// +kubebuilder:validation:Minimum=0.5
	// +kubebuilder:validation:Maximum=10
	CostVsBestFit *float64 `json:"costVsBestFit,omitempty"`

	// The saving on the newest two days, in percent, of a policy retrained on the week before. Above it, a
	// training starts ahead of schedule. Without it no policy is retrained for this measurement.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	RegretPercent *float64 `json:"regretPercent,omitempty"`
}

// PolicyPilotStatus is the state of the loop.
type PolicyPilotStatus struct {
	// Generation of the spec that the rest of the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Recording, Training, Judging, AwaitingApproval, Shadow, Canary, Live, Watching or RolledBack.
	// +optional
	Phase string `json:"phase,omitempty"`

	// Start of the phase, or the time when the cluster was first observed in it.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// The step of the rollout, with the share of a canary.
	// +optional
	Step string `json:"step,omitempty"`

	// Digest of the policy in rollout.
	// +optional
	Candidate string `json:"candidate,omitempty"`

	// Digest of the policy that is to decide. Empty: no policy of a pilot or a person.
	// +optional
	InForce string `json:"inForce,omitempty"`

	// Digest of the policy that is restored if a limit is broken.
	// +optional
	LastGood string `json:"lastGood,omitempty"`

	// The expected saving of the candidate, or of the active policy, against the policy before.
	// +optional
	Promised *PilotSaving `json:"promised,omitempty"`

	// The saving of the active policy against the policy before it, by a replay of the whole days
	// since it is live.
	// +optional
	Realised *PilotSaving `json:"realised,omitempty"`

	// Reasons for the phase.
	// +optional
	// +listType=atomic
	Reasons []string `json:"reasons,omitempty"`

	// Accepted, Recording and Measured.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Internal state of the loop, for sigma-pilot alone.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Memory *runtime.RawExtension `json:"memory,omitempty"`
}

// PilotSaving is a saving in percent of the cost of the nodes in use.
type PilotSaving struct {
	// The mean over days.
	// +required
	Percent float64 `json:"percent"`

	// The ends of the interval.
	// +required
	Low float64 `json:"low"`
	// +required
	High float64 `json:"high"`

	// Number of days in the mean.
	// +optional
	Days int32 `json:"days,omitempty"`

	// The same as text for people.
	// +required
	Text string `json:"text"`
}

// PolicyPilotList is a list of pilots.
//
// +kubebuilder:object:root=true
type PolicyPilotList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PolicyPilot `json:"items"`
}
