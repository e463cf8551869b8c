// Package horizontal lets a HorizontalPodAutoscaler and an object that changes requests, but no replicas, act on one
// workload. A target of utilization is a share of the requests of the pods: with a quarter of the request it means
// four times the pods. [Convert] replaces it by the same amount in cores or bytes for a pod, which does not depend on
// requests, and [Restore] undoes that. The package changes objects in memory only.
package horizontal
