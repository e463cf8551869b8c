// Package learned is an autoscaling agent whose rules are fixed and whose numbers are
// learned: some thirty of them, in a ScalingPolicy. It identifies the workload while it
// runs, the cpu of a request above all, and sizes pods in units of the cores that the promised
// latency requires for a single request, so that the same numbers serve workloads that it never
// saw.
//
// It depends on no guard, no cluster and no simulator.
package learned
