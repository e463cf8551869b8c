// Package ledger keeps the packing state of a live cluster: one whose machines,
// apps, rules and policies come and go. All of it enters by events, which are
// the lines of the decision log, and every decision is computed from what the
// events before it left. A log read again therefore gives the same decisions;
// [Verify] does that and names the first that differs.
//
// The package knows no Kubernetes: names are strings and amounts whole numbers.
package ledger
