// Package bound says what no scheduler can beat: lower bounds on the machines
// and the cost that a demand needs.
//
// It knows items only by their number per app. It does not know traces,
// orders of arrival or policies.
package bound
