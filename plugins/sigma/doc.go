// Package sigma is the kube-scheduler plugin Sigma: it filters nodes by
// PlacementRules, scores them by a PlacementPolicy, and binds pods so that no lost answer
// counts as a failure. It is a thin door: it answers the scheduling framework's calls,
// package engine decides.
package sigma
