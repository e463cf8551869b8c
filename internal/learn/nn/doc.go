// Package nn has small neural networks and their training: [MLP], [GRU], [Adam], [SoftUpdate]
// and the losses [MSE] and [Pinball].
//
// The parameters of a network are one flat slice, and so is their gradient. A
// [MLPPass] or [GRUPass] holds the buffers of one forward and backward pass; after it
// is made, a pass, a loss and a step of Adam allocate nothing. Matrices are row-major,
// one row per sample; a sequence is time-major: row t·batch + b is sample b at step t.
//
// Everything is generic over [Float]. Training uses float32. The tests run the same
// code in float64 and compare every gradient with central differences: in float32 the
// rounding of a difference is larger than most errors of a gradient.
//
// Products run on gonum's Gemm, in one goroutine. A network is initialised from a
// random stream that the caller gives, and there is no clock and no other source of
// randomness: the same stream and data give the same bytes on the same architecture.
//
// Files ([MLP.Encode], [GRU.Encode], [Seal]) are JSON: format, version, sizes and
// weights (little-endian, base64), and the digest of these.
//
// The package is independent of the meaning of its numbers.
//
// # Sources
//
//   - D. E. Rumelhart, G. E. Hinton, R. J. Williams, Learning representations by
//     back-propagating errors, Nature 323, 1986.
//   - K. Cho et al., Learning phrase representations using RNN encoder-decoder,
//     EMNLP 2014: the GRU; with the reset gate behind the product, as cuDNN has it.
//   - D. P. Kingma, J. Ba, Adam: a method for stochastic optimization, ICLR 2015.
//   - T. P. Lillicrap et al., Continuous control with deep reinforcement learning,
//     ICLR 2016: the soft update of targets.
//   - R. Koenker, G. Bassett, Regression quantiles, Econometrica 46, 1978: the pinball
//     loss.
package nn
