// Package sim is a discrete-event simulator of one autoscaled workload: requests come
// in open loop at the rate of a trace, pods serve them by processor sharing under a
// CFS quota, and an [mpa.Controller] decides on what it would see in a cluster:
// metrics that are scraped, averaged and late.
//
// The same seed gives the same result to the bit.
package sim
