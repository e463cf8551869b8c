// Package rebalance carries out Rebalance objects in the scheduler: every so often it looks
// which nodes a few moves of pods would free, and writes the answer to the object's status. In
// mode Auto it makes the moves too.
//
// The answer is that of sigma rebalance on a sigma snapshot of the same moment: both read the
// same objects with plugins/snapshot, mark the same pods as fixed, and search with the same
// seed. In mode Auto more pods are fixed, and of a workload no more move than may be evicted within an hour.
//
// Only the scheduler that leads makes plans: it alone holds places for replacements. It first writes
// the time of the plan to the status, which fails where the object changed, so that of two that
// take themselves for the leader one makes it.
//
// A unit is a node with the moves that empty it. Its state machine gets what can be seen, from
// informers, and returns what is to be done: cordon, hold all places, evict one pod after the other,
// mark the node as empty. Nothing is stored but annotations of nodes: whoever leads uncordons what
// nobody empties any more.
package rebalance
