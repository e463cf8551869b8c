// Package savings runs `sigma savings` on dumps that nobody tuned for, and checks each figure: the parts are the whole to
// the cent, each printed command gives the same figure, and the plans behind the figures break no rule of the cluster.
package savings
