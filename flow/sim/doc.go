// Package sim simulates flows on a link and on a fabric, on explicit arrivals.
//
// The model is fluid: bytes have no packets, and a flow's rate changes at once. [Link] is one
// queue: bands ([flow.Thresholds]; without thresholds fair sharing), least attained
// service, shortest remaining time, and a common queue with a finite buffer. [Fabric] is the
// hose model: hosts whose ports are the only limits. It either takes every port alone and adds
// delays ([Fabric.Decomposed]), or shares every port max-min among the flows of a band
// ([Fabric.Exact]), which is its check and slow.
//
// The same arrivals give the same bytes, whatever the number of workers. theory.go has the
// known closed forms.
//
// Times are in seconds, sizes in bytes, rates in bits per second.
//
// # Sources
//
//   - N. Duffield et al., A flexible model for resource management in virtual private
//     networks, SIGCOMM 1999: the hose model.
//   - L. Kleinrock, Queueing systems, volume 2, 1976: processor sharing, foreground-background.
//   - L. Schrage, L. Miller, The queue M/G/1 with the shortest remaining processing time
//     discipline, Operations Research 14, 1966.
package sim
