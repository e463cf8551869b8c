// Package measure rates the packing of a fleet: allocation rate, fragment, balance,
// spread and mean squared free share, each a pure function of a [binpack.State].
//
// A machine is active when it holds an item. Every measure is 0 without anything to
// measure: no active machine, no capacity, no item. Sums of amounts are exact
// integers; only their quotients are floats.
//
// The package has no time: the replay computes means over time.
package measure
