// Package record reads a scheduler's decision log while it grows: it makes a segment of each whole day,
// and says how the decisions of the last hour came out. It knows no cluster and no clock.
package record
