// Package collect observes a workload: its pods from the API server, their usage from
// the metrics API or Prometheus, its load and latency from Prometheus.
package collect
