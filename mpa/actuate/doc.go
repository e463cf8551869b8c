// Package actuate changes a workload: its replicas by the scale subresource, its pods by
// in-place resize, and as a last resort by eviction. Each call does one thing once; when
// it is right to do so, and how often, is the caller's business.
//
// What a pod's containers are to have follows from the recommendation and the
// workload's template alone ([Plan]), so that nothing drifts: limits keep the template's
// ratio to requests, the pod its QoS class.
package actuate
