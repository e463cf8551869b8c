// Package measure says how well a fleet is packed: allocation rate, fragment,
// balance, spread and mean squared free share, each a pure function of a
// [binpack.State].
//
// A machine is active when it holds an item. Every measure is 0 where there is
// nothing to measure: no active machine, no capacity, no item. Sums of amounts
// are exact integers; only their quotients are floats.
//
// The package does not know time: means over time are the business of the
// replay.
package measure
