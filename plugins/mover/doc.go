// Package mover makes room for pods that fit on no node: it begins a chain of moves in the
// pod's scheduling cycle, and carries it out outside the cycles. All places are reserved
// before the first pod is evicted. One pod of a chain is away at a time: the next is evicted
// when the replacement of the one before is ready on its planned node.
//
// The end of a chain releases its places, for whatever reason it ends. The pods moved until
// then run as before. The last replacement may still be awaited: until it is ready, on any
// node, the chain counts as in progress, and no chain begins for its pod or moves pods of that
// namespace. Only the evictions are stored, in their workloads: a restarted scheduler has no
// chains, and the policy places the replacement.
package mover
