// Package records is what the sections of published results have in common: it
// runs their commands and counts CPU seconds, judges figures by their targets, writes
// tables, and replaces pages.
//
// A section measures one capability and publishes one page, docs/results/NAME.md, with
// every figure and every command. The summary, docs/results.md, is made of the pages
// alone: it shows the rows that a section names as highlights.
//
// The package does not know what is measured: see placement, autoscaler and simcheck
// below it.
package records
