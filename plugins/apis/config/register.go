package config

import (
	"k8s.io/apimachinery/pkg/runtime"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// SchemeGroupVersion is the internal version of the scheduler's configuration.
var SchemeGroupVersion = schedconfig.SchemeGroupVersion

// AddToScheme registers the scheduler's configuration with SigmaArgs in it.
var AddToScheme = schedconfig.SchemeBuilder.AddToScheme

// The scheduler's own builder: the scheme in which it looks up the defaults of
// plugins without pluginConfig is built from that one, on first use.
func init() {
	schedconfig.SchemeBuilder.Register(func(scheme *runtime.Scheme) error {
		scheme.AddKnownTypes(SchemeGroupVersion, &SigmaArgs{})
		return nil
	})
}
