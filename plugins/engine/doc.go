// Package engine decides for the scheduler plugin and for the extender, which are
// thin doors to it. It is an inbox and a decision: what comes in from informers
// waits in the inbox; Sync enters it in the ledger, and with it the nodes that
// changed; RankAmong ranks nodes for a pod by the policy in force and falls back to
// Best-Fit when that fails; Reserve enters where the pod goes. It writes the decision
// log, the metrics, and the status of policies and rules.
//
// The state is the ledger's alone. Package kube translates objects into its events,
// without a state of its own. Everything that changes what a decision depends on
// is an event, and enters between decisions. That is why the decision log, read
// again, gives the same decisions.
package engine
