// Package stack simulates a cluster with the programs that run beside its scheduler: a provisioner that launches nodes
// and removes them, movers of pods, and sizers of requests. Time is virtual, and the scheduler decides by a policy on a
// [binpack.State], as in a replay of package cerebro; here a pod waits until a node that exists has room for it.
//
// Pods arrive and leave as in the trace, in every stack: the number of replicas is that of the recorded autoscaling.
package stack
