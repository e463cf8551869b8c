// Package kube translates between Kubernetes and the packing core: pods are
// items of apps, nodes are machines, and labels, anti-affinity and placement
// rules are limits and exclusions. It is the only place that knows the names and
// the units of resources, and what makes two pods the same app. The plugin, the
// extender and the snapshot all look through it, so that they see the same
// cluster.
package kube
