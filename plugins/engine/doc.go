// Package engine is what the scheduler plugin and the extender have in common:
// it follows a cluster, ranks nodes for a pod by the policy in force, and falls
// back to Best-Fit when that cannot be done. It writes the decision log, the
// metrics, and the status of policies and rules.
//
// Everything that changes what a decision depends on happens between decisions:
// what comes in meanwhile waits for the next [Engine.Sync]. That is why the
// decision log, read again, gives the same decisions.
package engine
