// Package report writes comparisons of autoscalers, which [sim] has simulated on one
// application and load, as table, JSON and HTML.
package report
