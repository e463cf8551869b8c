// Package podspec reads from a pod or a node alone what placement needs to know: which
// app it is of, what it needs, which nodes it may use, whether it moves, and whether a
// list of nodes has room for it. It is the only place that knows the names and the units
// of resources.
//
// It has no state and knows no policy and no ledger, so that the autoscaler can use it
// without them.
package podspec
