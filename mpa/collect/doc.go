// Package collect observes a workload: its pods from the API server, their usage from the
// metrics API or Prometheus, its load and latency from Prometheus. Missing values stay
// missing, old ones keep their time, and a [Problem] gives the reason for each. The package
// does not depend on the decisions from an observation.
//
// # Time of a sample
//
// Prometheus stamps the answer to an instant query with the time of the query, whatever the
// age of the samples behind it: for the look-back of five minutes, a target that has vanished
// looks like one that exists. So each query has a second one for the timestamp() of its
// selectors, and the answer is as old as the oldest of their newest samples. Where the query
// has an alternative (or, unless, absent), a selector without samples does not count. An
// offset is ignored: a query for last week's value is not stale.
package collect
