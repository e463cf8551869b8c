package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SigmaArgs are the arguments of the plugin Sigma.
//
// +kubebuilder:object:root=true
type SigmaArgs struct {
	metav1.TypeMeta `json:",inline"`

	// PolicyName is the PlacementPolicy that decides (general).
	PolicyName *string `json:"policyName,omitempty"`
	// CanaryPolicyName is a second PlacementPolicy, tried in shadow or as a canary
	// (no second one).
	CanaryPolicyName *string `json:"canaryPolicyName,omitempty"`
	// AppLabel is the label whose value is a pod's app (none: the app is the pod's
	// topmost controller).
	AppLabel *string `json:"appLabel,omitempty"`
	// Mapping of the policy's scores to the scheduler's: rank, the policy decides,
	// or linear, advice next to other plugins (rank).
	Mapping *string `json:"mapping,omitempty"`
	// Fleet is open, empty nodes stay empty as long as possible, or fixed, every
	// node is a candidate (open).
	Fleet *string `json:"fleet,omitempty"`
	// Prices is the absolute path of a CSV file with the cost of nodes an hour, as that of
	// sigma snapshot --prices (no file: their annotations, else a linear model).
	Prices *string `json:"prices,omitempty"`
	// DecisionLog is the absolute path of a file to which decisions are appended
	// (no log).
	DecisionLog *string `json:"decisionLog,omitempty"`
	// DecisionLogBytes is the size at which decisionLog is renamed and begins in
	// another file (256Mi; 0: never).
	DecisionLogBytes *resource.Quantity `json:"decisionLogBytes,omitempty"`
	// DecisionLogFiles is the number of former files of decisionLog that are kept (8; 0: all).
	DecisionLogFiles *int32 `json:"decisionLogFiles,omitempty"`
	// Deadline is the longest time for one pod's scores before Best-Fit decides (0: no
	// limit).
	Deadline *metav1.Duration `json:"deadline,omitempty"`
	// ForecastMaxAge is the age at which a forecast is stale and Best-Fit decides
	// (5m).
	ForecastMaxAge *metav1.Duration `json:"forecastMaxAge,omitempty"`
	// MaxGracePeriod is the longest terminationGracePeriodSeconds of a pod that is moved, by make-room
	// or a Rebalance, and the longest wait for the end of a moved pod (15m; 0: the same).
	MaxGracePeriod *metav1.Duration `json:"maxGracePeriod,omitempty"`
	// RebalancePrometheus is the URL of the Prometheus for the queries of Rebalances
	// (no Prometheus).
	RebalancePrometheus *string `json:"rebalancePrometheus,omitempty"`
}
