package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConcurrencyStatus is the learned capacity of one pod of the present size. Low and high bound
// the 95 % interval.
type ConcurrencyStatus struct {
	// InForce is the active limit of the gates; 0 = any number, or unknown.
	// +optional
	InForce int32 `json:"inForce,omitempty"`
	// Windows of a minute that were learned from, of those that are kept.
	// +optional
	Windows int32 `json:"windows,omitempty"`
	// Limit of requests at once that a pod should have.
	// +optional
	Limit int32 `json:"limit,omitempty"`
	// RatePerPod in requests per second within the SLO, with headroom.
	// +optional
	RatePerPod *resource.Quantity `json:"ratePerPod,omitempty"`
	// Replicas needed for the present rate of requests; not in mode Observe.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// Worse are limits that were tried and taken back.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Worse []WorseLimit `json:"worse,omitempty"`
	// Trial compares the new Revision of a Knative Service with the present one.
	// +optional
	Trial *Trial `json:"trial,omitempty"`
	// Demand is the cpu time of a request, and Wait its time waiting for others.
	// +optional
	Demand *DurationRange `json:"demand,omitempty"`
	// +optional
	Wait *DurationRange `json:"wait,omitempty"`
	// Reason of the limit, or of its absence.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// WorseLimit is a limit at which pods did worse than at From. While a request takes the same cpu
// time at From as then, no limit beyond From on that side is tried again.
type WorseLimit struct {
	// +optional
	Time  metav1.MicroTime `json:"time,omitempty"`
	From  int32            `json:"from"`
	Limit int32            `json:"limit"`
	// Demand is the cpu time of a request then.
	// +optional
	Demand *metav1.Duration `json:"demand,omitempty"`
	// +optional
	Reason string `json:"reason,omitempty"`
}

// DurationRange is an estimate and its 95 % interval.
type DurationRange struct {
	Value metav1.Duration `json:"value"`
	Low   metav1.Duration `json:"low"`
	High  metav1.Duration `json:"high"`
}

// LimitInForce is the last limit of requests at once that was carried out. Pods that are
// created later get it too.
type LimitInForce struct {
	// ID of the recommendation.
	ID int64 `json:"id"`
	// Time at which the change began, and Since that of the first.
	Time  metav1.MicroTime `json:"time"`
	Since metav1.MicroTime `json:"since"`
	Limit int32            `json:"limit"`
	// Template is the annotation in the workload's template at the first.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Template string `json:"template,omitempty"`
	// Pods that have it.
	// +optional
	Pods int32 `json:"pods,omitempty"`
	// Ended describes the change of the limit by another writer. No limit is written any more
	// until the mode has been another than Apply.
	// +optional
	Ended string `json:"ended,omitempty"`
}
