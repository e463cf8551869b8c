// Package tune finds the thresholds of bands by simulation.
//
// A [Problem] is a list of arrivals, drawn from a distribution or from sizes that were seen, on
// one link. The value of thresholds on it is
//
//	J = mean time ÷ that of fair sharing + mean slowdown ÷ that of fair sharing
//
// so lower is better and fair sharing has 2: the mean time alone is flat in the thresholds and
// ruled by long flows, the slowdown alone forgets them. [Problem.Search] starts from the
// closed form ([sim.Cascade]) and from bands that carry equal loads, and lets an optimiser of
// package swarm, in the log of bytes, spend a number of evaluations.
//
// [Tuner] does both for a [flow.Decider].
package tune
