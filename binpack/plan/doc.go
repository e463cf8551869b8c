// Package plan packs everything at once, when the number of items of each app is
// known beforehand: greedy constructions, improved by ruin and recreate, with a
// lower bound next to the result. It also writes the same problem as a mixed
// integer program for other solvers.
//
// Its input is the number of items per app, and machines that already hold some. It
// uses no traces, no orders of arrival and no policies.
package plan
