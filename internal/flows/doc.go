// Package flows is the engine of `sigma flow`: it reads names of policies, tunes those that have
// no thresholds of their own, and simulates all on the same arrivals.
package flows
