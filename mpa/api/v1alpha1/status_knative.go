package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KnativeStatus is the part of the learned capacity that a Knative Service has. The state
// itself is in an annotation of the Service.
type KnativeStatus struct {
	// Phase Observing: no change of ours is under way. Canary: a Revision with the learned numbers
	// gets a part of the requests. Restoring: the former numbers are back in the template, and the
	// former Revision has all requests until one with them is ready. Promoted and RolledBack: the
	// end of the last canary. Refused: nothing is written, and the condition AbleToScale has the
	// reason.
	// +kubebuilder:validation:Enum=Observing;Canary;Restoring;Promoted;RolledBack;Refused
	Phase string `json:"phase"`
	// Summary on one line.
	// +optional
	Summary string `json:"summary,omitempty"`
	// Since is the begin of the phase.
	// +optional
	Since *metav1.MicroTime `json:"since,omitempty"`
	// Stable is the Revision before the last canary, and Canary that one, once it exists.
	// +optional
	Stable string `json:"stable,omitempty"`
	// +optional
	Canary string `json:"canary,omitempty"`
	// Limit and Target of the last canary, or of the last target that a Revision got: requests at once
	// in a pod, and requests a second to scale by.
	// +optional
	Limit int32 `json:"limit,omitempty"`
	// +optional
	Target *resource.Quantity `json:"target,omitempty"`
	// Reason of the phase, or of trying nothing.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// Trial compares two Revisions at the same time, in sums. While a Revision gets another target, both
// are that one.
type Trial struct {
	// Since is Time less the measured time: gaps in the measurement move it.
	Since metav1.MicroTime `json:"since"`
	// Time of the newest measurement in the sums.
	Time   metav1.MicroTime `json:"time"`
	Stable Arm              `json:"stable"`
	Canary Arm              `json:"canary"`
}

// Arm holds the sums of one Revision.
type Arm struct {
	Revision string `json:"revision"`
	// Requests that arrived, those of them that were lost, and those of the others that were
	// later than the SLO's latency.
	Requests float64 `json:"requests"`
	Lost     float64 `json:"lost"`
	Late     float64 `json:"late"`
	// PodSeconds of the pods that were ready.
	PodSeconds float64 `json:"podSeconds"`
}
