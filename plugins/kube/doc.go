// Package kube translates between Kubernetes and the packing core, and has no
// state. Pods are items of apps, nodes are machines, labels, anti-affinity and
// placement rules are limits and exclusions. Package podspec reads single pods and
// nodes.
// package podspec reads.
//
// A [Translator] compares the observed cluster with a ledger and emits the
// events by which they differ. The ledger holds all data of the comparison, also the
// objects that may have to be translated again: a node when a selector is new, a
// group's newest pod when rules change. The plugin, the extender and the snapshot
// translate by it, so that they see the same cluster.
package kube
