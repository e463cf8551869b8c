// Package compare replays traces under several policies in many orders of
// arrival, in parallel, and passes the results to cerebro/report.
//
// It also finds policies by the names of the command line (Catalog), says what
// training has seen of a trace, computes the bound beside each figure, plans a trace at
// once, and prints bounds, plans and runs. The same input gives the same comparison
// for any number of workers. It reads no clock and does not know which policies
// are shipped.
package compare
