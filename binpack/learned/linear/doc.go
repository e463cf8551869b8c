// Package linear is the model linear: an item is placed on the machine with the
// highest Σ weight · feature. It estimates the future demand for the features from
// forecast, clock and arrivals.
//
// Size: features, estimates of demand, and three ways to leave out machines that cannot win share the caches of one scorer.
package linear
