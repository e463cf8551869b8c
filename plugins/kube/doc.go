// Package kube translates between Kubernetes and the packing core, and has no
// state. Pods are items of apps, nodes are machines, labels, anti-affinity and
// placement rules are limits and exclusions. What a pod or a node says by itself,
// package podspec reads.
//
// A [Translator] compares what is seen of a cluster with a ledger and emits the
// events by which they differ. All that it compares with is the ledger's, also the
// objects that it may have to translate again: a node when a selector is new, a
// group's newest pod when rules change. The plugin, the extender and the snapshot
// translate by it, so that they see the same cluster.
package kube
