// Package linear is the model linear: an item goes to the machine with the highest
// Σ weight · feature. What the features need to know of the demand to come it
// estimates from forecast, clock and arrivals.
package linear
