// Package report writes comparisons of autoscalers on one application and load, as
// simulated by package sim, as table, JSON and HTML.
package report
