package v1alpha1

// RuleSettings are a built-in rule (docs/policies.md) for all pods, or one for apps with one pod
// per node and another for the rest.
//
// +kubebuilder:validation:XValidation:rule="has(self.name) != (has(self.onePerNode) || has(self.others))",message="want a name, or onePerNode and others"
// +kubebuilder:validation:XValidation:rule="has(self.onePerNode) == has(self.others)",message="onePerNode and others go together"
// +kubebuilder:validation:XValidation:fieldPath=".onePerNode",rule="!has(self.onePerNode) || has(self.onePerNode.name)",message="the name is missing"
// +kubebuilder:validation:XValidation:fieldPath=".others",rule="!has(self.others) || has(self.others.name)",message="the name is missing"
type RuleSettings struct {
	RuleChoice `json:",inline"`

	// The rule for apps with at most one pod per node.
	// +optional
	OnePerNode *RuleChoice `json:"onePerNode,omitempty"`

	// The rule for all other apps.
	// +optional
	Others *RuleChoice `json:"others,omitempty"`
}

// RuleChoice is a built-in rule with its settings.
//
// +kubebuilder:validation:XValidation:fieldPath=".resources",rule="!has(self.resources) || has(self.name) && self.name in ['mostallocated', 'leastallocated', 'requestedtocapacityratio']",message="mostallocated, leastallocated and requestedtocapacityratio have resources"
// +kubebuilder:validation:XValidation:fieldPath=".shape",rule="!has(self.shape) || has(self.name) && self.name == 'requestedtocapacityratio'",message="requestedtocapacityratio has a shape"
type RuleChoice struct {
	// The name of the rule.
	// +optional
	// +kubebuilder:validation:Enum=firstfit;nextfit;bestfit-cpu;bestfit;bestfit-l2;worstfit;dotproduct;harmonic;movetofront;bestfit-fgd;dotproduct-min;gpupacking;gpuclustering;mostallocated;leastallocated;requestedtocapacityratio;balancedallocation
	Name string `json:"name,omitempty"`

	// The resources that count, with their weights. Without it all count alike.
	// +optional
	// +mapType=atomic
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=64
	Resources map[string]RuleWeight `json:"resources,omitempty"`

	// Points of a broken line: utilisation in percent, ascending, and score from 0 to
	// 10. Without it (0, 0) and (100, 10).
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=101
	// +kubebuilder:validation:XValidation:rule="self.all(p, p[1] <= 10)",message="want scores from 0 to 10"
	// +kubebuilder:validation:XValidation:rule="self.map(p, p[0]).isSorted() && self.all(p, self.exists_one(q, q[0] == p[0]))",message="want ascending utilisations"
	Shape []RulePoint `json:"shape,omitempty"`
}

// RuleWeight is the weight of a resource.
//
// +kubebuilder:validation:Minimum=1
// +kubebuilder:validation:Maximum=100
type RuleWeight int32

// RulePoint is a utilisation and a score.
//
// +listType=atomic
// +kubebuilder:validation:MinItems=2
// +kubebuilder:validation:MaxItems=2
// +kubebuilder:validation:items:Minimum=0
// +kubebuilder:validation:items:Maximum=100
type RulePoint []int32
