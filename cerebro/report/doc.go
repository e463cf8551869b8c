// Package report compares policies that were replayed on the same traces: as
// JSON for programs, as a table for a terminal, as Markdown, and as an HTML page
// of one file.
//
// Every figure stands beside its limit, a lower bound or an optimum. The
// package prints what it is given: it knows no clock and replays nothing, and
// the same comparison gives the same bytes.
package report
