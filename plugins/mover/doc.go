// Package mover makes room for pods that fit on no node: it begins a chain of moves in the
// pod's scheduling cycle, and carries it out beside the cycles. All places are reserved
// before the first pod is evicted. One pod of a chain is away at a time: the next is evicted
// when the replacement of the one before is ready on its planned node.
//
// Whatever ends a chain releases its places. What was moved until then stands as well as
// before. The last replacement may still be awaited: until it is ready, wherever it comes, the
// chain counts as one that is under way, and no chain begins for its pod or moves pods of that
// namespace. Nothing is stored but the evictions, in their workloads: a scheduler that starts
// again knows of no chain, and the policy places the replacement.
package mover
