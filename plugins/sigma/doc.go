// Package sigma is the kube-scheduler plugin Sigma: it filters nodes by
// PlacementRules and scores them by a PlacementPolicy. It is a thin door: it answers
// the scheduling framework's calls, package engine decides.
package sigma
