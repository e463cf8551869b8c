// Package savings computes the bill of a cluster: its cost a month, the causes of waste with their money,
// their proof and the command for each, and the least cost that is proven.
//
// Its input is a trace with the present placement. Money is in whole cents, so that the steps, the rest and the
// floor add up to the present cost. The moves are those of internal/defrag, the policies those of
// internal/compare, the plans those of binpack/plan, and the stacks of the simulated month those of
// internal/month: the package has no search of its own.
package savings
