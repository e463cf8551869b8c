// Package rollout is the model rollout: it places a request as a whole, in the way
// that is best on average over sampled futures.
package rollout
