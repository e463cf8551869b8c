// Package ledger is the only state of a live cluster: its machines, pods, apps, groups,
// rules, forecast, windows and policies, and the columns that policies score on. All of it enters by events, which are the lines of the decision
// log, and every decision is computed from the state after the events before it. A log
// that is read again therefore gives the same decisions; [Verify] computes them again and
// names the first that differs.
//
// The package does not depend on Kubernetes: names are strings and amounts whole numbers. An
// entry may carry the object that it was translated from, which the package does not read.
package ledger
