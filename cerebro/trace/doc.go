// Package trace reads and writes what Cerebro replays and what a replay leaves
// behind: traces (a fleet, its applications and what was asked of it over
// time) and placements.
//
// A trace is a folder, or the same as .tar.gz, of trace.yaml, machines.csv,
// apps.csv, events.csv and, where there are any, rules.csv and placed.csv.
// Reading is strict: whatever the format does not define is an error that names
// file, line and field, so that a trace that loads means what it says. Writing
// is canonical: the same trace gives the same bytes, and these bytes are what
// the digests are computed over.
//
// The package knows formats only. It does not place anything, and it does not
// check whether placements keep the constraints.
package trace
