// Package planned is the model plan: it follows a packing of all items that are
// known to arrive, which binpack/plan makes when the first item is placed.
package planned
