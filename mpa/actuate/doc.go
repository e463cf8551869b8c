// Package actuate changes a workload: its replicas by the scale subresource, its pods by
// in-place resize, and as a last resort by eviction. Each call makes one change once; the
// caller decides when and how often.
//
// The resources of a pod's containers follow from the recommendation and the workload's
// template alone ([Plan]), so that repeated changes cannot drift: limits keep the template's
// ratio to requests, and the pod keeps its QoS class.
package actuate
