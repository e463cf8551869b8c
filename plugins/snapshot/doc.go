// Package snapshot reads a running cluster, changing nothing, and makes a trace of
// it: once, or of what comes and goes over hours. It also explains where one pod
// would go. What pods and nodes are to a policy, package kube says, as it does for
// the scheduler; what a policy would do with them, others do.
package snapshot
