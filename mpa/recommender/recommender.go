// Package recommender decides: it observes each MultidimPodAutoscaler's workload, asks
// the pure controller of package mpa, and writes what came of it to the status.
package recommender

import "sigs.k8s.io/controller-runtime/pkg/manager"

// Options of the recommender.
type Options struct{}

// Setup adds it to a manager.
func Setup(manager.Manager, Options) error { return nil }
