// Package history keeps the use of 28 days of the containers that MultidimPodAutoscalers size
// by it, from the Prometheus servers that they name, and gives their sizes to the recommender.
//
// Once a day, after midnight of UTC, it reads the day before, by package
// internal/usage/prometheus, into a file; a process that is killed reads the rest. In memory
// are summaries of sized workloads only. Decisions never wait for a reading: without
// one they have the last sizes, or the reason for having none.
package history
