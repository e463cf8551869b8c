// Package drain evicts pods whose replacements land on planned nodes. One state machine serves two purposes: it
// empties a node, for a Rebalance object in mode Auto, and it makes room for a pod that fits on no node, by an
// eviction chain. It takes the observed state and returns the next action: cordon the node, reserve all places,
// evict one pod after the other, mark the node as empty, admit the pod that waits. All places are reserved before
// the first pod is evicted. The timeout of a move is the pod's grace period and two minutes; a
// replacement with a node has two minutes more in a chain, and five in the drain of a node.
//
// At intervals a Rebalance computes which nodes a few moves of pods would free, and writes the plan to the object's
// status. The plan equals that of sigma rebalance on a sigma snapshot of the same moment: both read the same objects
// with plugins/snapshot, mark the same pods as not evictable, and search with the same seed. In mode Auto
// more pods are not evictable, and of a workload no more move than may be evicted within an hour. Only the leading
// scheduler makes plans: it alone reserves places for replacements. It first writes the time of the plan to the
// status, which fails if the object changed: of two schedulers that both take themselves for the leader, one makes
// the plan. Only annotations of nodes are stored: the leader uncordons nodes that no Rebalance is emptying any more.
//
// A chain begins in the cycle of the pod that waits, and is carried out outside the cycles. Its end releases its
// places, for whatever reason it ends; the pods moved until then run as before. The last replacement may still be
// awaited: until it is ready, on any node, the chain counts as in progress, and no chain begins for its pod or moves
// pods of that namespace. Only the evictions are stored, in their workloads: a restarted scheduler has no chains,
// and the policy places the replacement.
package drain
