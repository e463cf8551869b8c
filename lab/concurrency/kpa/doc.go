// Package kpa holds the agent that scales as Knative does against Knative's own autoscaler.
package kpa
