// Package evict is the one way in which Sigma evicts pods: make-room, Rebalance and the
// autoscaler's updater all go through it.
//
// Limits count the evictions of the last hour, whatever process made them. Each eviction is
// therefore written to an annotation of the pod's workload before the pod is evicted, with
// a patch that fails where somebody else changed the workload first. All records are read
// again after the write: of two processes that reach a limit together, at least one sees the
// other and withdraws. A record whose eviction was surely refused is withdrawn too; one
// whose answer was lost stays, since the pod may be gone.
//
// A record that cannot be read may hide evictions: its workload and its namespace count as
// full. It does not stop other namespaces, whose limits its editor has no right to touch.
// Records in the future, which a clock that was set back leaves, count as made now.
//
// The package decides neither which pods may move nor when: see podspec.Movable.
package evict
