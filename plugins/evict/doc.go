// Package evict is the only way in which Sigma evicts pods: make-room, Rebalance and the
// autoscaler's updater all use it.
//
// Limits count the evictions of the last hour, by all processes. Each eviction is written in
// two places before the pod is evicted, with patches that fail where somebody else changed
// the object first: to an annotation of the pod's workload, and to a list in a namespace of
// the cluster's own. Owners of a workload can write its annotation, so that it counts toward
// this workload's limit only; all other limits count the list. The list is checked and
// written in one step: of two processes that reach a limit together, one writes later and is
// refused. An entry whose eviction was surely refused is withdrawn; one whose answer was lost
// stays, since the pod may be gone.
//
// An annotation that cannot be read may hide evictions: its workload counts as full. A list
// that cannot be read stops all evictions until it is deleted. Records in the future, left by
// a clock that was set back, count as made now, and those of more than a day ahead cannot be
// read.
//
// Earlier versions wrote annotations only: each evictor once completes the list by those.
//
// The package decides neither which pods may move nor when: see podspec.Movable.
package evict
