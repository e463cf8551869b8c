// Package snapshot reads a running cluster, without changing it, and makes a trace
// of it: of one moment, or of the changes over hours. It also finds the node for one
// pod. Package kube translates pods and nodes, as it does for the scheduler;
// package history makes the trace. The package applies no policy.
//
// Size: one picture of a cluster, read live or from files, and the facts of it that a bill needs;
// the readers of either share its types.
package snapshot
