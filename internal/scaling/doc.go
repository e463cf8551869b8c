// Package scaling simulates autoscaling agents, learned ones among them, on one application
// or on generated ones, and searches for the numbers of a ScalingPolicy.
package scaling
