// Package compare replays traces under several policies in many orders of
// arrival, in parallel, and hands the results to cerebro/report.
//
// It also finds policies by the names of the command line (Catalog), says what
// training has seen of a trace, and computes the bound that stands beside each
// figure. The same input gives the same comparison for any number of workers.
// It reads no clock, writes nothing and does not know what is shipped.
package compare
