// Package engine decides for the scheduler plugin and for the extender. It is an
// inbox and a decision. What informers report waits in the inbox. Sync empties it into
// the ledger, together with the nodes that changed. RankAmong ranks nodes for a pod
// by the policy in force, and by Best-Fit when that fails. Reserve enters where the
// pod goes. The engine also writes the decision log, the metrics, and the status of
// policies and rules.
//
// The ledger is the only state; package kube translates objects into its events.
// Whatever a decision depends on changes by an event, between decisions. Therefore
// the decision log, read again, gives the same decisions.
package engine
