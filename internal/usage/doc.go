// Package usage keeps a workload's history of cpu and memory in bounded space, and
// derives from it the effective size: the amount of a resource that placement counts for
// one pod.
//
// A history holds a histogram of cpu and the memory peak of each of the last 28 days. Samples of all pods of a workload are
// pooled, each weighted by its duration, so restarts, renamed pods and replicas that share load need no identity.
//
// The package has no clock and reads no metrics: samples have their times.
package usage
