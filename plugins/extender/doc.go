// Package extender answers kube-scheduler's HTTP extender calls with the engine
// that the plugin uses: filter applies PlacementRules, prioritize a
// PlacementPolicy. It is for schedulers that cannot be built with the plugin.
//
// A scheduler counts the pods whose binding is under way, but does not report them
// to an extender. So the extender assumes at once that a pod is on its own first
// choice, until the cluster shows the pod's node or the assumption expires.
package extender
