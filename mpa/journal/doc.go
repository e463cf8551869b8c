// Package journal writes the observations, decisions and outcomes of a workload to a file,
// one JSON object a line, and computes the decisions again from it.
//
// docs/mpa-journal.md describes the format.
package journal
