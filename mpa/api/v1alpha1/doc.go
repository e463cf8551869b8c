// Package v1alpha1 holds the object MultidimPodAutoscaler: how many replicas of what size a
// Deployment or a StatefulSet may have, its promise, and how that is measured. Next to it is
// ScalingPolicy: the numbers of the algorithm learned. The package has the objects' shape
// only: mpa decides, and mpa/updater carries decisions out.
//
// # Writers
//
// The recommender writes status.observed, status.decision,
// status.recommendation, status.memory, status.learning, status.retraining and the conditions
// RecommendationProvided, MetricsAvailable, ScalingActive, Accepted, Retraining,
// ScalingLimited and FallbackActive. The updater
// writes status.actuation and the conditions AbleToScale and ResizePending. Both
// use server-side apply, so that neither touches the other's fields. The recommender also
// writes the status of ScalingPolicies.
//
// A recommendation is a state to reach, not a step, and has an id that rises. The updater
// carries out an id once; after a restart it finds the last one in status.actuation.id.
//
// Deep copies and the CustomResourceDefinitions in manifests/mpa/crds are
// generated: hack/codegen/run.sh.
package v1alpha1

// +kubebuilder:object:generate=true
// +groupName=autoscaling.sigma-scheduler.io
