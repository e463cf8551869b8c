// Package report prints comparisons of policies that were replayed on the same traces: as
// JSON for programs, as a table for a terminal, as Markdown, and as an HTML page in
// one file.
//
// Every figure has its limit next to it, a lower bound or an optimum. The package uses
// no clock and replays nothing, and the same comparison gives the same bytes.
package report
