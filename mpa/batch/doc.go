// Package batch gives batch work the cpu and memory that online pods leave, as the extended
// resources [CPU] and [Memory] of nodes.
//
// A part of the program publishes them once a minute, by the formula of internal/usage: 95 % of a
// node without the p99 of its online pods in their slots of the next two hours, or without their
// use now, whichever is less. A webhook converts the requests of labelled Jobs' pods. Where online pods leave less than
// batch pods hold, the youngest of these are evicted.
package batch
