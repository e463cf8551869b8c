// Package config holds the arguments of the plugin Sigma in the scheduler's
// configuration, as the plugin reads them; package v1 is how a file has them.
// They belong to the scheduler's own group, kubescheduler.config.k8s.io: the
// scheduler decodes pluginConfig of no other. Package scheme makes them known to
// it, package validation checks them.
//
// Deep copies, conversions and defaults are generated: hack/codegen/run.sh.
package config

// +kubebuilder:object:generate=true
