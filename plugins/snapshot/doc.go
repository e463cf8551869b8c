// Package snapshot reads a running cluster, without changing it, and makes a trace
// of it: of one moment, or of what happens over hours. It also finds where one pod
// would go. Package kube translates pods and nodes, as it does for the scheduler;
// package history makes the trace. The package applies no policy.
package snapshot
