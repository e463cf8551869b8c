// Package observe estimates the gain of bands for the flows of a node, before anything is changed.
//
// A [Watcher] takes the records of the flows seen on a node and the byte counter of its uplink. It keeps a window of
// sizes of the node and of each server port on each interface, the load, and the flows that are still running and
// large. A [Report] has the effect of bands: thresholds as [flow.Decider] would set them, and how long short flows
// would wait, simulated on the observed sizes and load.
//
// It also reports how well sizes could have been estimated from those before, which decides whether hints are of
// use: by the deviation of the log of the size around the estimate.
//
// The package has no clock and no kernel.
package observe
