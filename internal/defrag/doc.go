// Package defrag searches for a few moves that empty machines, or make room for items
// that wait, from a placement. It is the engine of "sigma rebalance" and of the object
// Rebalance. The slow checker confirms each step of a result.
package defrag
