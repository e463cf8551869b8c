// Package record reads a scheduler's decision log while it grows: which days it holds whole, how
// its decisions of the last hour came out, and the trace of a window. It knows no cluster and no
// clock.
package record
