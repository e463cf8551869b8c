// Package flow orders flows in front of a link: short ones first, by bands.
//
// A new flow is in the first band. It moves to the next one each time the bytes that it has
// sent pass a threshold ([Thresholds]). A band is served only while those before it are
// empty, and inside a band flows share evenly. No size needs to be known beforehand; if a
// size is estimated, a flow moves after its first band to the band of the estimate, or to
// the one of its bytes if that is deeper. A [Hinter] holds the sizes that applications
// declare and those of earlier flows, and uses those that were right.
//
// [Sizes] is a distribution of flow sizes, read from a file or taken from flows that were
// seen. Package flow/sim simulates links and fabrics, and flow/tune finds thresholds.
//
// Sizes are in bytes of payload, rates in bits per second, times in seconds. The package
// has no clock and no client.
//
// # Sources
//
//   - W. Bai et al., Information-agnostic flow scheduling for commodity data centers,
//     NSDI 2015 (PIAS): bands by bytes sent.
//   - L. Chen et al., AuTO: scaling deep reinforcement learning for datacenter-scale
//     automatic traffic optimization, SIGCOMM 2018: thresholds that are learned.
package flow
