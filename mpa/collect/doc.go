// Package collect observes a workload: its pods from the API server, their usage from
// the metrics API or Prometheus, its load and latency from Prometheus. What is missing
// stays missing, what is old keeps its time, and a [Problem] says why for each. The package
// does not know what is decided from an observation.
//
// # Time of a sample
//
// Prometheus stamps the answer to an instant query with the time of the query, whatever
// the age of the samples behind it: for the look-back of five minutes, a target that has
// vanished looks like one that is there. So each query comes with a second one for the
// timestamp() of its selectors, and the answer is as old as the oldest of their newest
// samples. Where the query has an alternative (or, unless, absent), a selector without
// samples does not count. An offset is ignored: a query that wants last week's value is
// not stale.
package collect
