// Package podspec reads from a pod or a node alone the data that placement needs: its
// app, its demand, the nodes that it may use, whether it moves, and whether a
// list of nodes has room for it. Only this package has the names and the units
// of resources.
//
// It has no state and depends on no policy and no ledger, so that the autoscaler can use it
// without them.
package podspec
