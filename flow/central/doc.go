// Package central finds the thresholds of FlowPolicies from the traffic of their nodes, and reports the policies'
// progress. [Central] decides: it has no client, and the clock is an argument. [Runner] reads objects and writes the
// status of FlowPolicies.
//
// Nodes report sizes as sketches. A policy has one window, of flows drawn from the sketches of all its nodes together,
// so that nodes with different traffic do not look like a change in time. Whether the window suffices is decided by
// flow.Decider, with its guards.
//
// A new central has empty windows and the thresholds of the status: they stay until its own are better.
package central
