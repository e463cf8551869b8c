package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Condition types.
const (
	// ConditionAccepted: the object could be loaded; otherwise the message has the reason.
	ConditionAccepted = "Accepted"
	// ConditionActive: the policy decides, or in shadow mode is computed, now; the plan reserves.
	ConditionActive = "Active"
	// ConditionRepair: the mode of spec.repair is executed.
	ConditionRepair = "Repair"
	// ConditionPlanned: the plan in the status is of the present spec.
	ConditionPlanned = "Planned"
	// ConditionProgressing: pods are moved as planned, or will be.
	ConditionProgressing = "Progressing"
	// ConditionStopped: pods are not moved, or no more; the reason names the cause.
	ConditionStopped = "Stopped"
	// ConditionConflicting: a node holds pods against a rule.
	ConditionConflicting = "Conflicting"
)

// PlacementPolicy chooses among the nodes on which a pod may run.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=pp
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.spec.model`
// +kubebuilder:printcolumn:name="Knowledge",type=string,JSONPath=`.spec.knowledge`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Active",type=string,JSONPath=`.status.conditions[?(@.type=="Active")].status`
// +kubebuilder:printcolumn:name="Why-Not",type=string,JSONPath=`.status.conditions[?(@.status=="False")].message`,description="Message of the first condition that is false"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Digest",type=string,JSONPath=`.status.digest`,priority=1
type PlacementPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The policy.
	// +required
	Spec PlacementPolicySpec `json:"spec"`
	// The report of the scheduler.
	// +optional
	Status PlacementPolicyStatus `json:"status,omitempty"`
}

// PlacementPolicySpec is a model, its features, and its numbers.
//
// +kubebuilder:validation:XValidation:fieldPath=".weights",rule="self.weights.size() == self.features.size()",message="want one weight for each feature"
// +kubebuilder:validation:XValidation:fieldPath=".knowledge",rule="self.model != 'plan' || self.knowledge == 'K2'",message="the model plan needs K2"
// +kubebuilder:validation:XValidation:fieldPath=".features",rule="self.model != 'plan' || self.features.size() == 0",message="the model plan has no features"
// +kubebuilder:validation:XValidation:fieldPath=".knowledge",rule="self.model != 'population' || self.knowledge in ['K0', 'K0+clock']",message="the model population needs K0 or K0+clock"
// +kubebuilder:validation:XValidation:fieldPath=".features",rule="self.model != 'population' || self.features.size() == 0",message="the model population has no features"
// +kubebuilder:validation:XValidation:fieldPath=".knowledge",rule="self.model != 'shipped' || self.knowledge in ['K0', 'K1']",message="the model shipped needs K0 or K1"
// +kubebuilder:validation:XValidation:fieldPath=".features",rule="self.model != 'shipped' || self.features.size() == 0",message="the model shipped has no features"
// +kubebuilder:validation:XValidation:fieldPath=".parameters",rule="self.model != 'shipped' || self.parameters.size() == 0",message="the model shipped has no parameters"
// +kubebuilder:validation:XValidation:fieldPath=".parameters",rule="self.model != 'linear' || self.parameters.all(p, p in ['alpha', 'beta', 'eta', 'pace', 'q', 'rho', 'z'])",message="the model linear has alpha, beta, eta, pace, q, rho, z"
// +kubebuilder:validation:XValidation:fieldPath=".parameters",rule="self.model != 'plan' || self.parameters.all(p, p in ['reserve', 'slack', 'steps'])",message="the model plan has reserve, slack, steps"
// +kubebuilder:validation:XValidation:fieldPath=".parameters",rule="self.model != 'devices' || self.parameters.size() == 0",message="the model devices has no parameters"
// +kubebuilder:validation:XValidation:fieldPath=".features",rule="self.features.all(f, (self.model == 'devices') == (f.contains('@') && !f.startsWith('util:')))",message="features with @ are those of the model devices, and it has no others"
// +kubebuilder:validation:XValidation:fieldPath=".parameters",rule="self.model != 'population' || self.parameters.all(p, p.matches('^((kappa|rivals|crowd|excess)[1-6]|busy|fade|bend|start|base|prior|small|large|far|past)$'))",message="the model population has base, bend, busy, fade, far, large, past, prior, small, start, and crowd, excess, kappa, rivals with a number from 1 to 6"
// +kubebuilder:validation:XValidation:fieldPath=".parameters",rule="self.weights.size() != self.features.size() || !(self.knowledge in ['K0', 'K0+clock']) || 'alpha' in self.parameters || ['closing', 'slot', 'press', 'singl'].all(f, !(f in self.features) || self.weights[self.features.indexOf(f)] == 0.0)",message="alpha is needed: without a forecast, closing, slot, press and singl count arrivals"
// +kubebuilder:validation:XValidation:fieldPath=".features",rule="!('slot' in self.features && 'press' in self.features)",message="press takes the place of slot: list one of them"
// +kubebuilder:validation:XValidation:fieldPath=".rule",rule="(self.model == 'rule') == has(self.rule)",message="the model rule has a rule, and no other model has one"
// +kubebuilder:validation:XValidation:fieldPath=".knowledge",rule="self.model != 'rule' || self.knowledge == 'K0'",message="the model rule needs K0"
// +kubebuilder:validation:XValidation:fieldPath=".features",rule="self.model != 'rule' || self.features.size() == 0",message="the model rule has no features"
// +kubebuilder:validation:XValidation:fieldPath=".parameters",rule="self.model != 'rule' || self.parameters.size() == 0",message="the model rule has no parameters"
type PlacementPolicySpec struct {
	// Version of the table of features (docs/features.md) that the weights were
	// trained with.
	// +required
	// +kubebuilder:validation:Enum=1
	FeatureVersion int `json:"featureVersion"`

	// linear: a weighted sum of the features. plan: all pods that are known to
	// arrive are packed beforehand. devices: a weighted sum for each class of pods by
	// the devices they request. population: the expected waste of machines with equal
	// room; one resource only. rule: a built-in rule. shipped: chooses among the files that Sigma ships.
	// +required
	// +kubebuilder:validation:Enum=linear;plan;devices;population;rule;shipped
	Model string `json:"model"`

	// The knowledge of the policy. K0: the pod, the nodes, the rules and the past.
	// K1: also the expected number of pods of each app. K2: their true number.
	// With +clock also the share of the time that is over.
	// +required
	// +kubebuilder:validation:Enum=K0;"K0+clock";K1;"K1+clock";K2
	Knowledge string `json:"knowledge"`

	// The inputs of the model (docs/features.md); util:<resource> is the utilisation of
	// one resource. No feature twice.
	// +optional
	// +default=[]
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=320
	// +kubebuilder:validation:items:Pattern=`^(util|mean|full|frag|empty|recent|close|closing|open|singl|age|crowd|own|size|price|partners|slot|rise|bill|tight|press|util:(.|\n)+|(fragment|stranded|gpu|cpu|rank)@(none|shared|whole))$`
	// +kubebuilder:validation:XValidation:rule="self.all(f, self.exists_one(g, f == g))",messageExpression="'listed twice: ' + self.filter(f, !self.exists_one(g, f == g))[0]"
	Features []string `json:"features"`

	// One weight for each feature, in the same order.
	// +optional
	// +default=[]
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:Minimum=-100
	// +kubebuilder:validation:items:Maximum=100
	Weights []float64 `json:"weights"`

	// Numbers of the model that are not weights (docs/features.md).
	// +optional
	// +default={}
	// +mapType=atomic
	// +kubebuilder:validation:MaxProperties=35
	// +kubebuilder:validation:XValidation:fieldPath=".eta",rule="!('eta' in self) || self.eta >= 0.1 && self.eta <= 7.9",message="want 0.1 to 7.9"
	// +kubebuilder:validation:XValidation:fieldPath=".alpha",rule="!('alpha' in self) || self.alpha >= 0.0 && self.alpha <= 2.0",message="want 0 to 2"
	// +kubebuilder:validation:XValidation:fieldPath=".beta",rule="!('beta' in self) || self.beta >= 0.0 && self.beta <= 2.0",message="want 0 to 2"
	// +kubebuilder:validation:XValidation:fieldPath=".rho",rule="!('rho' in self) || self.rho >= 0.0 && self.rho <= 1.0",message="want 0 to 1"
	// +kubebuilder:validation:XValidation:fieldPath=".pace",rule="!('pace' in self) || self.pace >= 0.0 && self.pace <= 4.0",message="want 0 to 4"
	// +kubebuilder:validation:XValidation:fieldPath=".z",rule="!('z' in self) || self.z >= -1.0 && self.z <= 1.0",message="want -1 to 1"
	// +kubebuilder:validation:XValidation:fieldPath=".q",rule="!('q' in self) || self.q >= 0.0 && self.q <= 2.5",message="want 0 to 2.5"
	// +kubebuilder:validation:XValidation:fieldPath=".steps",rule="!('steps' in self) || self.steps >= 0.0 && self.steps <= 100000.0",message="want 0 to 100000"
	// +kubebuilder:validation:XValidation:fieldPath=".slack",rule="!('slack' in self) || self.slack >= 0.0 && self.slack <= 0.5",message="want 0 to 0.5"
	// +kubebuilder:validation:XValidation:fieldPath=".reserve",rule="!('reserve' in self) || self.reserve >= 0.0 && self.reserve <= 100.0",message="want 0 to 100"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.matches('^(kappa|crowd)[1-6]$') || self[k] >= -2.0 && self[k] <= 4.0)",message="kappa and crowd: want -2 to 4"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.matches('^rivals[1-6]$') || self[k] >= -1.8 && self[k] <= 4.2)",message="rivals: want -1.8 to 4.2"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.matches('^excess[1-6]$') || self[k] >= -4.0 && self[k] <= 2.0)",message="excess: want -4 to 2"
	// +kubebuilder:validation:XValidation:fieldPath=".busy",rule="!('busy' in self) || self.busy >= -8.0 && self.busy <= 2.0",message="want -8 to 2"
	// +kubebuilder:validation:XValidation:fieldPath=".fade",rule="!('fade' in self) || self.fade >= -3.5 && self.fade <= 2.5",message="want -3.5 to 2.5"
	// +kubebuilder:validation:XValidation:fieldPath=".bend",rule="!('bend' in self) || self.bend >= -3.0 && self.bend <= 2.0",message="want -3 to 2"
	// +kubebuilder:validation:XValidation:fieldPath=".start",rule="!('start' in self) || self.start >= -4.0 && self.start <= 4.0",message="want -4 to 4"
	// +kubebuilder:validation:XValidation:fieldPath=".base",rule="!('base' in self) || self.base >= 0.0 && self.base <= 8.0",message="want 0 to 8"
	// +kubebuilder:validation:XValidation:fieldPath=".prior",rule="!('prior' in self) || self.prior >= 0.0 && self.prior <= 8.0",message="want 0 to 8"
	// +kubebuilder:validation:XValidation:fieldPath=".small",rule="!('small' in self) || self.small >= 0.0 && self.small <= 0.4",message="want 0 to 0.4"
	// +kubebuilder:validation:XValidation:fieldPath=".large",rule="!('large' in self) || self.large >= 0.4 && self.large <= 1.0",message="want 0.4 to 1"
	// +kubebuilder:validation:XValidation:fieldPath=".far",rule="!('far' in self) || self.far >= 0.0 && self.far <= 10.0",message="want 0 to 10"
	// +kubebuilder:validation:XValidation:fieldPath=".past",rule="!('past' in self) || self.past >= 0.0 && self.past <= 4.0",message="want 0 to 4"
	Parameters map[string]float64 `json:"parameters,omitempty"`

	// The rule of the model rule.
	// +optional
	Rule *RuleSettings `json:"rule,omitempty"`

	// shadow: computed and compared, decides nothing. canary: decides for a
	// share of the workloads. live: decides.
	// +optional
	// +default="shadow"
	// +kubebuilder:validation:Enum=shadow;canary;live
	Mode string `json:"mode,omitempty"`

	// Share of the workloads for which a canary decides.
	// +optional
	// +default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	CanaryPercent *int32 `json:"canaryPercent,omitempty"`

	// The repair for a pod that fits on no node: a short chain of moves of other pods
	// makes room. By kube-scheduler with the plugin Sigma, not by the extender.
	// +optional
	Repair *RepairSettings `json:"repair,omitempty"`

	// The weight of the pods' preferences: their own preferred (anti-)affinity and their topology
	// spread with ScheduleAnyway, by host and zone.
	// +optional
	Soft *SoftSettings `json:"soft,omitempty"`

	// The largest share of a workload's declared pods, rounded up and at least one, on a
	// node while another one takes the pod. Without it there is no such limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:ExclusiveMinimum=true
	// +kubebuilder:validation:Maximum=1
	MaxShareOfApp *float64 `json:"maxShareOfApp,omitempty"`

	// The origin of the numbers; without effect.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Provenance *runtime.RawExtension `json:"provenance,omitempty"`
}

// SoftSettings determine the weight of the preferences of pods.
//
// +kubebuilder:validation:XValidation:fieldPath=".loss",rule="!has(self.loss) || self.loss == 0.0 || !has(self.mode) || self.mode == 'keep'",message="keep has a loss, the other modes have none"
// +kubebuilder:validation:XValidation:fieldPath=".price",rule="(has(self.price) && self.price > 0.0) == (has(self.mode) && self.mode == 'trade')",message="the mode trade has a price above 0, the others none"
type SoftSettings struct {
	// keep: the policy decides among the nodes of the best soft score. trade: the soft score is
	// part of the policy's. ignore: the policy decides alone.
	// +optional
	// +default="keep"
	// +kubebuilder:validation:Enum=keep;trade;ignore
	Mode string `json:"mode,omitempty"`

	// Of keep: the largest difference of a node's soft score from the best one.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Loss *float64 `json:"loss,omitempty"`

	// Of trade: the value of a soft score of 1 in the policy's score.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Price *float64 `json:"price,omitempty"`
}

// RepairMode determines the effect of a repair.
//
// +kubebuilder:validation:Enum=Disabled;DryRun;Enabled
type RepairMode string

// RepairSettings bound the moves of pods for one that fits on no node.
type RepairSettings struct {
	// DryRun only reports, in an event of the waiting pod, the pods that would move. Enabled
	// evicts them one after the other and reserves the places of their replacements.
	// +optional
	// +default="Disabled"
	Mode RepairMode `json:"mode,omitempty"`

	// The most pods that move for one waiting pod.
	// +optional
	// +default=8
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=32
	Chain *int32 `json:"chain,omitempty"`

	// The most pods that move in an hour, for all waiting pods.
	// +optional
	// +default=20
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MovesPerHour *int32 `json:"movesPerHour,omitempty"`

	// Pods of workloads with fewer pods on nodes do not move.
	// +optional
	// +default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MinReplicas *int32 `json:"minReplicas,omitempty"`
}

// PlacementPolicyStatus is the report of the scheduler on a policy.
type PlacementPolicyStatus struct {
	// Generation of the spec that the rest of the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Digest of the numbers in use, as the decision log and `sigma policy show` have it.
	// +optional
	Digest string `json:"digest,omitempty"`

	// Accepted, Active, and Repair if the policy requests one.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PlacementPolicyList is a list of policies.
//
// +kubebuilder:object:root=true
type PlacementPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PlacementPolicy `json:"items"`
}
