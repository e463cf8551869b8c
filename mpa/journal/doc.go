// Package journal keeps what was observed, decided and done of a workload in a file,
// one JSON object a line, and computes the decisions again from it.
//
// docs/mpa-journal.md is the format.
package journal
