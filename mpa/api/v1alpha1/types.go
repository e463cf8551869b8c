package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Field owners of the status, one for each of its parts.
const (
	OwnerRecommender = "sigma-mpa-recommender"
	OwnerUpdater     = "sigma-mpa-updater"
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
// +kubebuilder:printcolumn:name="Learning",type=string,JSONPath=`.status.learning.phase`,description="How far the policy of the algorithm learned is trusted"
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.observed.replicas`
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.status.decision.replicas`
// +kubebuilder:printcolumn:name="CPU",type=string,JSONPath=`.status.decision.containers[0].cpu`,description="Of the first container"
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.status.decision.containers[0].memory`,description="Of the first container"
// +kubebuilder:printcolumn:name="SLO",type=string,JSONPath=`.status.observed.sloRatio`,description="Latency as a share of what is promised; above 1 the promise is broken"
// +kubebuilder:printcolumn:name="Condition",type=string,JSONPath=`.status.summary`
// +kubebuilder:printcolumn:name="Knative",type=string,JSONPath=`.status.knative.summary`,description="What of the learned capacity a Knative Service has"
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.spec.recommender.policy`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name: at most 63 characters"
type MultidimPodAutoscaler struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The desired state.
	// +required
	Spec MultidimPodAutoscalerSpec `json:"spec"`
	// The observed state.
	// +optional
	Status MultidimPodAutoscalerStatus `json:"status,omitempty"`
}

// MultidimPodAutoscalerSpec defines the workload that is sized, and how.
//
// +kubebuilder:validation:XValidation:fieldPath=".metrics",rule="!has(self.slo) || has(self.metrics.prometheus)",message="an SLO is measured by Prometheus: metrics.prometheus is missing"
// +kubebuilder:validation:XValidation:fieldPath=".metrics",rule="!has(self.slo) || !has(self.slo.latency) || (has(self.metrics.prometheus) && (has(self.metrics.prometheus.queries.latency) || (has(self.concurrency) && self.concurrency.pod == 'Knative')))",message="slo.latency needs metrics.prometheus.queries.latency"
// +kubebuilder:validation:XValidation:fieldPath=".metrics",rule="!has(self.slo) || !has(self.slo.throughput) || (has(self.metrics.prometheus) && has(self.metrics.prometheus.queries.throughput))",message="slo.throughput needs metrics.prometheus.queries.throughput"
// +kubebuilder:validation:XValidation:fieldPath=".concurrency",rule="!has(self.concurrency) || has(self.metrics.prometheus)",message="gates are measured by Prometheus: metrics.prometheus is missing"
// +kubebuilder:validation:XValidation:fieldPath=".concurrency.mode",rule="!has(self.concurrency) || self.concurrency.mode != 'Apply' || (has(self.slo) && has(self.slo.latency)) || (has(self.metrics.prometheus) && has(self.metrics.prometheus.queries.rate))",message="Apply needs slo.latency or metrics.prometheus.queries.rate"
// +kubebuilder:validation:XValidation:fieldPath=".recommender",rule="!(self.recommender.algorithm in ['capacity', 'kpa', 'kpa-rps', 'kpa-10']) || has(self.concurrency)",message="this algorithm needs what gates measure: concurrency is missing"
// +kubebuilder:validation:XValidation:fieldPath=".recommender",rule="self.recommender.algorithm != 'capacity' || (has(self.slo) && has(self.slo.latency))",message="the algorithm capacity needs slo.latency"
// +kubebuilder:validation:XValidation:fieldPath=".metrics",rule="self.recommender.algorithm != 'usage' || has(self.metrics.prometheus)",message="the algorithm usage needs the Prometheus that has the use of 28 days: metrics.prometheus is missing"
// +kubebuilder:validation:XValidation:fieldPath=".fallback",rule="!has(self.fallback) || !(self.recommender.algorithm in ['usage', 'template'])",reason=FieldValueForbidden,message="the algorithms usage and template keep their last sizes, leave this out"
// +kubebuilder:validation:XValidation:fieldPath=".scaleTargetRef",rule="self.scaleTargetRef.apiVersion == 'apps/v1' || (has(self.concurrency) && self.concurrency.pod == 'Knative')",message="a Knative Service needs concurrency.pod Knative"
// +kubebuilder:validation:XValidation:fieldPath=".concurrency.pod",rule="self.scaleTargetRef.apiVersion != 'apps/v1' || !has(self.concurrency) || self.concurrency.pod != 'Knative'",message="pod Knative needs a Service of serving.knative.dev/v1 as the target"
// +kubebuilder:validation:XValidation:fieldPath=".constraints",rule="has(self.constraints) || (has(self.concurrency) && self.concurrency.pod == 'Knative')",reason=FieldValueRequired,message="the bounds of replicas"
// +kubebuilder:validation:XValidation:fieldPath=".constraints",rule="!has(self.constraints) || !has(self.concurrency) || self.concurrency.pod != 'Knative'",reason=FieldValueForbidden,message="Knative keeps the replicas and the size of its pods"
// +kubebuilder:validation:XValidation:fieldPath=".mode",rule="!has(self.concurrency) || self.concurrency.pod != 'Knative' || self.mode in ['Off', 'InPlaceOrRecreate']",message="nothing of a Knative Service is sized: want Off, which writes nothing, or the default"
// +kubebuilder:validation:XValidation:fieldPath=".recommender.algorithm",rule="!has(self.concurrency) || self.concurrency.pod != 'Knative' || self.recommender.algorithm == 'hpa+vpa'",message="Knative decides on replicas, leave this out"
// +kubebuilder:validation:XValidation:fieldPath=".fallback",rule="!has(self.fallback) || !has(self.concurrency) || self.concurrency.pod != 'Knative'",reason=FieldValueForbidden,message="Knative decides on replicas"
// +kubebuilder:validation:XValidation:fieldPath=".slo.throughput",rule="!has(self.slo) || !has(self.slo.throughput) || !has(self.concurrency) || self.concurrency.pod != 'Knative'",reason=FieldValueForbidden,message="a pod of a Knative Service keeps a latency"
// +kubebuilder:validation:XValidation:fieldPath=".concurrency.mode",rule="!has(self.concurrency) || self.concurrency.pod != 'Knative' || self.concurrency.mode == 'Observe' || (has(self.slo) && has(self.slo.latency))",message="the requests a second in a pod of a Knative Service need slo.latency"
type MultidimPodAutoscalerSpec struct {
	// The workload: a Deployment or a StatefulSet of the same namespace, or, with concurrency.pod
	// Knative, a Service of serving.knative.dev/v1.
	// +required
	ScaleTargetRef TargetReference `json:"scaleTargetRef"`

	// "Off", in quotes since YAML reads Off as false: recommends and changes nothing. Initial:
	// changes replicas, and the requests of new pods only. InPlace: also resizes running pods in
	// place. InPlaceOrRecreate: also evicts pods that cannot be resized. Recreate: changes
	// running pods by eviction only.
	// +optional
	// +default="InPlaceOrRecreate"
	Mode Mode `json:"mode,omitempty"`

	// The service level that the workload promises. Without it only usage counts.
	// +optional
	SLO *SLO `json:"slo,omitempty"`

	// How usage and load are measured.
	// +optional
	// +default={"usage":"MetricsAPI"}
	Metrics Metrics `json:"metrics,omitempty"`

	// The bounds of replicas and requests. They are required except for a Knative Service.
	// +optional
	Constraints Constraints `json:"constraints,omitzero"`

	// The recommender and the algorithm that decide.
	// +optional
	// +default={}
	Recommender Recommender `json:"recommender,omitempty"`

	// The algorithm that decides while the first one cannot.
	// +optional
	Fallback *Fallback `json:"fallback,omitempty"`

	// Learning of a pod's capacity, the requests at once and their rate, from the metrics of
	// gates before the pods (sigma-gate, or Knative's queue-proxy) in Prometheus. The status has
	// it.
	// +optional
	Concurrency *Concurrency `json:"concurrency,omitempty"`
}

// TargetReference names the workload.
//
// +kubebuilder:validation:XValidation:rule="(self.apiVersion == 'apps/v1' && self.kind in ['Deployment', 'StatefulSet']) || (self.apiVersion == 'serving.knative.dev/v1' && self.kind == 'Service')",message="want a Deployment or a StatefulSet of apps/v1, or a Service of serving.knative.dev/v1"
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

// Mode defines the changes that may be made, and how.
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

// SLO is the service level that the workload promises.
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
	// Target is the upper bound of that latency, such as 250ms.
	// +required
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="self >= duration('1ms') && self <= duration('10m')",message="want 1ms to 10m"
	Target metav1.Duration `json:"target"`
}

// ThroughputSLO promises a number of answered requests per second.
type ThroughputSLO struct {
	// Target in answered requests per second, while at least as many arrive.
	// +required
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="want more than 0"
	Target resource.Quantity `json:"target"`
}

// Metrics configures how usage and load are measured.
//
// +kubebuilder:validation:XValidation:fieldPath=".prometheus",rule="self.usage != 'Prometheus' || has(self.prometheus)",message="usage from Prometheus needs its server"
type Metrics struct {
	// Usage is the source for the usage of containers: the metrics API or Prometheus.
	// +optional
	// +default="MetricsAPI"
	// +kubebuilder:validation:Enum=MetricsAPI;Prometheus
	Usage UsageSource `json:"usage,omitempty"`
	// Prometheus that has the workload's load.
	// +optional
	Prometheus *Prometheus `json:"prometheus,omitempty"`
	// MaxAge is the largest age of a measurement that counts in a decision.
	// +optional
	// +default="2m"
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="self >= duration('10s') && self <= duration('10m')",message="want 10s to 10m"
	MaxAge *metav1.Duration `json:"maxAge,omitempty"`
}

// UsageSource is the source for the usage of containers.
type UsageSource string

// The sources.
const (
	UsageMetricsAPI UsageSource = "MetricsAPI"
	UsagePrometheus UsageSource = "Prometheus"
)

// Prometheus is a server and the queries for it.
//
// +kubebuilder:validation:XValidation:rule="has(self.server) != has(self.address)",message="want server or its predecessor address"
type Prometheus struct {
	// Server is the name of a server in the recommender's list (--prometheus-servers), which
	// has its address and credentials.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Server string `json:"server,omitempty"`
	// Address is deprecated: use server. It is read for one more version, if it is the URL of
	// a server in that list.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHost() != ''",message="want an http or https URL"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[^/]*//[^/?#]*@')",message="no user belongs there; name a server that has the credentials"
	Address string `json:"address,omitempty"`
	// +optional
	// +default={}
	Queries Queries `json:"queries,omitempty"`
}

// Queries in PromQL. $namespace, $name (of the target) and $pods (a regular expression that
// matches the names of its pods) are replaced.
type Queries struct {
	// Rate of arriving requests, per second, as one number.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Rate string `json:"rate,omitempty"`
	// Latency at the SLO's percentile, in seconds, as one number.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Latency string `json:"latency,omitempty"`
	// Throughput: requests answered per second, as one number.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Throughput string `json:"throughput,omitempty"`
	// CPU in cores and Memory in bytes, as one number for each container, with the labels pod
	// and container. Only for usage from Prometheus; default: the kubelet's metrics.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	CPU string `json:"cpu,omitempty"`
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Memory string `json:"memory,omitempty"`
}

// Constraints are the bounds of replicas and requests.
type Constraints struct {
	// +required
	Replicas ReplicaRange `json:"replicas"`
	// Containers to size. Containers that are not listed keep their requests.
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

// ContainerConstraints are the bounds of one container's requests. Limits keep their ratio
// to the requests.
//
// +kubebuilder:validation:XValidation:fieldPath=".maxAllowed",rule="!has(self.minAllowed.cpu) || !has(self.maxAllowed.cpu) || quantity(string(self.minAllowed.cpu)).compareTo(quantity(string(self.maxAllowed.cpu))) <= 0",message="cpu is below minAllowed"
// +kubebuilder:validation:XValidation:fieldPath=".maxAllowed",rule="!has(self.minAllowed.memory) || !has(self.maxAllowed.memory) || quantity(string(self.minAllowed.memory)).compareTo(quantity(string(self.maxAllowed.memory))) <= 0",message="memory is below minAllowed"
type ContainerConstraints struct {
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Resources to size.
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

// UpperAmounts always have a number, so that nothing grows without bound.
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

// Recommender names the recommender and the algorithm that decide.
//
// +kubebuilder:validation:XValidation:fieldPath=".algorithm",rule="!has(self.policy) || self.algorithm == 'learned'",message="a policy is for the algorithm learned"
// +kubebuilder:validation:XValidation:fieldPath=".algorithm",rule="!has(self.learning) || self.algorithm == 'learned'",message="learning is for the algorithm learned"
type Recommender struct {
	// Name of the recommender that decides for this object. Sigma's own is "default"; it
	// ignores objects that name another program, which then writes status.recommendation.
	// +optional
	// +default="default"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
	// Algorithm of that recommender.
	// +optional
	// +default="hpa+vpa"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Algorithm string `json:"algorithm,omitempty"`
	// Policy is the name of the ScalingPolicy of the algorithm learned.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Policy string `json:"policy,omitempty"`
	// Learning configures the trust in the policy.
	// +optional
	Learning *Learning `json:"learning,omitempty"`
}

// Learning defines the phase in which a new policy begins, and the window that judges it.
type Learning struct {
	// Begin is the phase of a new policy: OfflineTraining (the fallback, or hpa+vpa, acts and
	// the policy recommends next to it), OnlineTraining (the policy acts within half of the
	// capacity by the fallback) or Serving.
	// +optional
	// +default="OfflineTraining"
	// +kubebuilder:validation:Enum=OfflineTraining;OnlineTraining;Serving
	Begin string `json:"begin,omitempty"`
	// Window whose load is simulated with both to compare them.
	// +optional
	// +default="3h"
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="self >= duration('1m') && self <= duration('24h')",message="want 1m to 24h"
	Window *metav1.Duration `json:"window,omitempty"`
}

// Fallback decides while the algorithm has no opinion, because it lacks its input or is
// still learning. While usage is missing, neither decides.
type Fallback struct {
	// +optional
	// +default="hpa+vpa"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Algorithm string `json:"algorithm,omitempty"`
	// After is the time without an opinion of the algorithm before the fallback decides.
	// +optional
	// +default="3m"
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="self >= duration('0s') && self <= duration('1h')",message="want 0s to 1h"
	After *metav1.Duration `json:"after,omitempty"`
}

// MultidimPodAutoscalerList is a list of autoscalers.
//
// +kubebuilder:object:root=true
type MultidimPodAutoscalerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MultidimPodAutoscaler `json:"items"`
}
