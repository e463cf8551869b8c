// Package central finds the thresholds of FlowPolicies from what their nodes saw, and says how far the policies are.
// [Central] decides: no client, and the clock is an argument. [Runner] reads objects and writes the status of FlowPolicies.
//
// Nodes tell sizes as sketches. A policy has one window, of flows drawn from the sketches of all its nodes together, so
// that nodes with different traffic do not look like a change in time. What the window is good for is that of
// flow.Decider, with its guards.
//
// A central that starts has empty windows and the thresholds of the status: they stay until its own are better.
package central
