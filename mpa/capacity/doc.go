// Package capacity learns the load that one pod can serve: how many requests at once, at
// which rate, and why, from windows of a second or more in which cpu, answers and the number
// inside were measured.
//
// A [Window] is one measurement. A [Trial] adds windows at one limit until their throughput
// is precise enough. A [Learner] proposes the next limit, learns from its windows and
// estimates a [Capacity]. A [Guard] keeps the limits of a learner below those that the memory
// can hold. [New] makes a guarded learner by name.
//
// The package uses no Kubernetes, no clock and no randomness except the streams of a seed:
// the same windows give the same limits.
//
// # Sources
//
//   - J. D. C. Little, A proof for the queuing formula L = λW, Operations Research 9, 1961.
//   - J. P. Buzen, Computational algorithms for closed queueing networks, CACM 16, 1973.
//   - N. J. Gunther, Guerrilla Capacity Planning, 2007: contention that grows with the
//     number of requests.
//   - L. Schuler, S. Jamil, N. Kühl, AI-based resource allocation: reinforcement learning
//     for adaptive auto-scaling in serverless environments, CCGrid 2021: the learner paper.
package capacity
