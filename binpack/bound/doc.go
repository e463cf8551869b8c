// Package bound computes limits that no scheduler can beat: lower bounds on the
// machines and the cost that a demand needs.
//
// It handles items only by their number per app. It uses no traces, orders of
// arrival or policies.
package bound
