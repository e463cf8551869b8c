// Package sim simulates one autoscaled workload: requests pass through the pods of
// package loadsim, and an [mpa.Controller] decides on the data that it would have in a cluster:
// metrics that are scraped, averaged and late.
//
// The same seed gives the same result to the bit.
package sim
