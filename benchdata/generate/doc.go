// Package generate makes the standard instances: seeded traces with the shape
// of container clusters (small, large, fixed, churn), of the literature on
// one-dimensional packing (weibull, orlib) and with many dimensions (wide).
//
// The same kind, seed and parameters give the same trace. Every purpose draws
// from a stream of its own, so that a parameter of the forecast, for instance,
// leaves the true counts and the order of arrival as they are.
//
// It does not depend on policies, and reads and writes no files.
package generate
