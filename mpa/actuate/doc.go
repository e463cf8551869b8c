// Package actuate changes a workload: its replicas by the scale subresource, its pods by
// in-place resize, and as a last resort by eviction.
package actuate
