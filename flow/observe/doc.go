// Package observe says what the flows of a node would gain from bands, before anything is changed.
//
// A [Watcher] takes the records of flows that a node saw and the byte counter of its uplink. It keeps a window of
// sizes of the node and of each server port on each interface, the load, and the flows that are still running and
// large. A [Report] has what bands would give: thresholds as [flow.Decider] would set them, and how long short flows
// would wait, simulated on the sizes and the load that were seen.
//
// It also says how well sizes could have been estimated from those before, which decides whether hints are worth
// anything: by the deviation of the log of the size around the estimate.
//
// There is no clock and no kernel here.
package observe
