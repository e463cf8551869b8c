// Package rebalance carries out Rebalance objects in the scheduler: every so often it looks
// which nodes a few moves of pods would free, and writes the answer to the object's status.
// It moves nothing.
//
// The answer is that of sigma rebalance on a sigma snapshot of the same moment: both read the
// same objects with plugins/snapshot, mark the same pods as fixed, and search with the same
// seed. Nothing is read between two plans but the list of Rebalances.
//
// Each scheduler, also a standby, looks for plans that are due. The one that writes the time
// of the plan to the status first makes it; the write fails where the object changed.
package rebalance
