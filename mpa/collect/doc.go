// Package collect observes a workload: its pods from the API server, their usage from
// the metrics API or Prometheus, its load and latency from Prometheus. What is missing
// stays missing, what is old keeps its time, and each has a [Problem] that says why.
// The package knows nothing of what is decided upon it.
//
// # Time of a sample
//
// Prometheus gives the answer to an instant query the time of the query, whatever the
// age of the samples that it was made of: up to its look-back, five minutes, a target
// that has vanished looks like one that is there. So beside each query its selectors
// are asked for their timestamp(), and the answer is as old as the oldest of the
// newest samples. Where the query has an alternative (or, unless, absent), a selector
// that has no sample does not count. An offset is left out: what the writer of a query
// wants from last week is not stale.
package collect
