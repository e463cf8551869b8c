// Package gpus describes machines with GPUs that items share: a machine's cpu and
// GPUs, the typical items that request them, and the fragment that such items
// cannot use. The rules of FGD's authors and the learned model devices use it. It
// computes no scores.
package gpus
