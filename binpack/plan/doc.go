// Package plan packs everything at once, when the number of items of each app
// is known beforehand: greedy constructions, improved by ruin and recreate, with
// a lower bound beside the result. It also writes the same question as a mixed
// integer program for other solvers.
//
// It knows items only by their number per app, and machines that already hold
// some. It knows no traces, no orders of arrival and no policies.
package plan
