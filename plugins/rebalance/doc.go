// Package rebalance carries out Rebalance objects in the scheduler: at intervals it computes which
// nodes a few moves of pods would free, and writes the plan to the object's status. In mode Auto it
// also makes the moves.
//
// The plan equals that of sigma rebalance on a sigma snapshot of the same moment: both read the same objects
// with plugins/snapshot, mark the same pods as not evictable, and search with the same seed. In mode Auto
// more pods are not evictable, and of a workload no more move than may be evicted within an hour.
//
// Only the leading scheduler makes plans: it alone reserves places for replacements. It first writes
// the time of the plan to the status, which fails if the object changed: of two schedulers that both
// take themselves for the leader, one makes the plan.
//
// A unit is a node with the moves that empty it. Its state machine takes the state observed by
// informers and returns the next action: cordon, reserve all places, evict one pod after the other,
// mark the node as empty. Only annotations of nodes are stored: the leader uncordons nodes that no
// Rebalance is emptying any more.
package rebalance
