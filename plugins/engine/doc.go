// Package engine decides for the scheduler plugin and for the extender. It has an
// event queue and a decision. Reports of informers wait in the queue. Sync moves them into
// the ledger, together with the nodes that changed. RankAmong ranks nodes for a pod
// by the active policy, and by Best-Fit when that fails. Reserve enters the pod's
// node. The engine also writes the decision log, the metrics, and the status of
// policies and rules.
//
// The ledger is the only state; package kube translates objects into its events.
// All inputs of a decision change by events, between decisions. Therefore
// the decision log, read again, gives the same decisions.
package engine
