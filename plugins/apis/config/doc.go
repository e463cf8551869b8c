// Package config holds the arguments of the plugin Sigma in the scheduler's
// configuration, as the plugin reads them; package v1 has them as a file does.
// They belong to the scheduler's own group, kubescheduler.config.k8s.io, because the
// scheduler decodes pluginConfig of that group only. Package scheme registers them,
// package validation checks them.
//
// Deep copies, conversions and defaults are generated: hack/codegen/run.sh.
package config

// +kubebuilder:object:generate=true
