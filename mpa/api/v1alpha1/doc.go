// Package v1alpha1 holds the object with which a workload is sized:
// MultidimPodAutoscaler, how many replicas of what size a Deployment or a
// StatefulSet may have, what it promises, and how that is measured. The package
// knows the object's shape only: what is decided is mpa's business, and who
// carries it out mpa/updater's.
//
// # Who writes what
//
// The recommender writes status.observed, status.decision,
// status.recommendation, status.memory and the conditions RecommendationProvided,
// MetricsAvailable, ScalingActive, ScalingLimited and FallbackActive. The updater
// writes status.actuation and the conditions AbleToScale and ResizePending. Both
// use server-side apply, so that neither touches the other's fields.
//
// A recommendation is a state to be reached, not a step, and its id rises with each
// one. The updater carries out an id once; after a restart it finds in
// status.actuation.id which one was the last.
//
// Deep copies and the CustomResourceDefinition in manifests/mpa/crds are
// generated: hack/codegen/run.sh.
package v1alpha1

// +kubebuilder:object:generate=true
// +groupName=autoscaling.sigma-scheduler.io
