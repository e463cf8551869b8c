// Package loadsim simulates requests through pods under a quota: a discrete-event
// simulator in which requests arrive in open loop at the rate of a [Load], and pods
// serve them by processor sharing, or in turns, under a CFS quota.
//
// It is independent of metrics, decisions and Kubernetes: a caller opens, resizes and
// kills pods between calls of [Engine.Run]. The same seed gives the same result to the
// bit.
package loadsim
