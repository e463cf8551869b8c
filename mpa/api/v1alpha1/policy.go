package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionAccepted of a ScalingPolicy: the algorithm learned can decide with it. Of a
// MultidimPodAutoscaler with that algorithm: it decides with the policy that the spec names,
// as it is now.
const ConditionAccepted = "Accepted"

// ScalingPolicy has the numbers of the algorithm learned, as the file that sigma mpa train
// writes.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].reason`
// +kubebuilder:printcolumn:name="Method",type=string,JSONPath=`.spec.provenance.method`,description="How the numbers were found; empty if by hand"
// +kubebuilder:printcolumn:name="Digest",type=string,JSONPath=`.status.digest`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ScalingPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The numbers, and their origin.
	// +required
	Spec ScalingPolicySpec `json:"spec"`
	// Whether they are accepted.
	// +optional
	Status ScalingPolicyStatus `json:"status,omitempty"`
}

// ScalingPolicySpec has the numbers. docs/mpa-learned.md has the meaning of each.
type ScalingPolicySpec struct {
	// Version of the numbers' meaning.
	// +required
	// +kubebuilder:validation:Minimum=1
	Version int32 `json:"version"`
	// All numbers by name.
	// +required
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=128
	Numbers map[string]float64 `json:"numbers"`
	// How the numbers were found; empty if they are set by hand.
	// +optional
	Provenance *ScalingProvenance `json:"provenance,omitempty"`
}

// ScalingProvenance records how numbers were found.
type ScalingProvenance struct {
	// Method of the search, its length and its seed.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Method string `json:"method,omitempty"`
	// +optional
	// +kubebuilder:validation:Minimum=0
	Evaluations int64 `json:"evaluations,omitempty"`
	// +optional
	// +kubebuilder:validation:Minimum=0
	Seed int64 `json:"seed,omitempty"`
	// FirstScenario and Scenarios are the seeds of the generated scenarios that were searched
	// and validated on. Those from 900,000 up are for tests.
	// +optional
	// +kubebuilder:validation:Minimum=0
	FirstScenario int64 `json:"firstScenario,omitempty"`
	// +optional
	// +kubebuilder:validation:Minimum=0
	Scenarios int64 `json:"scenarios,omitempty"`
	// Traces were read in addition to synthetic loads.
	// +optional
	Traces bool `json:"traces,omitempty"`
	// JournaledPieces of the user's own workloads, of three hours, were searched on as well.
	// +optional
	// +kubebuilder:validation:Minimum=0
	JournaledPieces int64 `json:"journaledPieces,omitempty"`
	// Journal is the sha256 of the journals that these pieces are from, ReplacesDigest the digest of
	// the policy that the search began with, and Pieces, PiecesCost and ReplacesCost compare both on
	// the last pieces, which were kept from the search: costs as shares of that of hpa+vpa.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Journal string `json:"journal,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=128
	ReplacesDigest string `json:"replacesDigest,omitempty"`
	// +optional
	// +kubebuilder:validation:Minimum=0
	Pieces int64 `json:"pieces,omitempty"`
	// +optional
	PiecesCost float64 `json:"piecesCost,omitempty"`
	// +optional
	ReplacesCost float64 `json:"replacesCost,omitempty"`
	// Objective of the search; lower is better.
	// +optional
	Objective float64 `json:"objective,omitempty"`
	// Cost on the scenarios kept from the search, as a share of that of hpa+vpa, and the number
	// of them on which the policy and hpa+vpa kept the promise.
	// +optional
	ValidationCost float64 `json:"validationCost,omitempty"`
	// +optional
	ValidationKept int64 `json:"validationKept,omitempty"`
	// +optional
	ValidationKeptByPair int64 `json:"validationKeptByPair,omitempty"`
	// Module is the version of the program that searched.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Module string `json:"module,omitempty"`
}

// ScalingPolicyStatus is the acceptance of a policy.
type ScalingPolicyStatus struct {
	// Digest by which decisions and journals name the policy: that of the file as sigma mpa
	// train writes it. Empty if the policy is not accepted.
	// +optional
	Digest string `json:"digest,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ScalingPolicyList is a list of policies.
//
// +kubebuilder:object:root=true
type ScalingPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ScalingPolicy `json:"items"`
}
