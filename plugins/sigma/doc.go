// Package sigma is the kube-scheduler plugin Sigma: it filters nodes by
// PlacementRules and scores them by a PlacementPolicy. What it decides by is in
// package engine; here the scheduling framework's calls are answered.
package sigma
