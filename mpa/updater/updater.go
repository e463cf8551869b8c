// Package updater carries out what a recommender wrote to a MultidimPodAutoscaler's
// status.
package updater

import "sigs.k8s.io/controller-runtime/pkg/manager"

// Options of the updater.
type Options struct{}

// Setup adds it to a manager.
func Setup(manager.Manager, Options) error { return nil }
