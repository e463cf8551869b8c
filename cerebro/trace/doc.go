// Package trace reads and writes the input and the output of Cerebro's replays:
// traces (a fleet, its applications and the requests to it over time) and
// placements.
//
// A trace is a folder, or the same as .tar.gz, of trace.yaml, machines.csv,
// apps.csv, events.csv and, if not empty, rules.csv and placed.csv. Reading is
// strict: whatever the format does not define is an error that names file, line and
// field, so that a trace that loads is unambiguous. Writing is canonical: the same
// trace gives the same bytes, and these bytes are what the digests are computed
// over.
//
// The package handles formats only. It places nothing, and it does not check
// whether placements keep the constraints.
package trace
