// Package ledger is the only state of a live cluster: its machines, pods, apps, groups,
// rules, forecast, windows and policies, and the columns that policies score on. All of it enters by events, which are the lines of the decision
// log, and every decision is computed from what the events before it left. A log
// read again therefore gives the same decisions; [Verify] does that and names the
// first that differs.
//
// The package knows no Kubernetes: names are strings and amounts whole numbers. An
// entry may carry the object that it was translated from, unseen.
package ledger
