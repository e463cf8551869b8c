// Package sigma is the kube-scheduler plugin Sigma: it filters nodes by
// PlacementRules, scores them by a PlacementPolicy, and binds pods so that no lost response
// counts as a failure. It only adapts the calls of the scheduling framework: package engine
// decides.
package sigma
