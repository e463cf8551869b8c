// Package manifest reads Kubernetes manifests and adds the future pods of their workloads
// to a snapshot's trace, so that they can be planned before they exist. Package kube
// translates pods, rules and nodes, as it does for the scheduler.
package manifest
