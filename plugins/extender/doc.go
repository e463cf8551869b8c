// Package extender answers kube-scheduler's HTTP extender calls with the engine
// that the plugin uses: filter heeds PlacementRules, prioritize a
// PlacementPolicy. It is for schedulers that cannot be built with the plugin.
//
// A scheduler counts the pods whose binding is under way, and an extender does not
// hear of them. So it takes its own first choice for granted at once, for a while,
// until the cluster says where the pod is.
package extender
