// Package planned is the model plan: it follows a packing of everything that is
// known to come, which binpack/plan makes when the first item is placed.
package planned
