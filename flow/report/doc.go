// Package report writes comparisons of orders of flows, as simulated by package sim, as table,
// JSON and HTML.
package report
