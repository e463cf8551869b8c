// Package record reads a scheduler's decision log while it grows: it makes a segment of each whole day,
// and summarises the decisions of the last hour. It is independent of a cluster and a clock.
package record
