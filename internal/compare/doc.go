// Package compare replays traces under several policies in many orders of
// arrival, in parallel, and passes the results to cerebro/report.
//
// It also finds policies by the names of the command line (Catalog), reports the part
// of a trace seen in training, computes the bound next to each figure, plans a trace at
// once, and prints bounds, plans and runs. The same input gives the same comparison for
// any number of workers. It reads no clock and has no list of the shipped policies.
package compare
