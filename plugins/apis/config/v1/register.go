package v1

import (
	"k8s.io/apimachinery/pkg/runtime"
	schedconfigv1 "k8s.io/kube-scheduler/config/v1"
)

// SchemeGroupVersion is version v1 of the scheduler's configuration.
var SchemeGroupVersion = schedconfigv1.SchemeGroupVersion

// The scheduler's own builder, see package config. Generated code registers with
// it by this name.
var localSchemeBuilder = &schedconfigv1.SchemeBuilder

// AddToScheme registers version v1 of the scheduler's configuration with
// SigmaArgs in it.
var AddToScheme = localSchemeBuilder.AddToScheme

func init() {
	localSchemeBuilder.Register(func(scheme *runtime.Scheme) error {
		scheme.AddKnownTypes(SchemeGroupVersion, &SigmaArgs{})
		return RegisterDefaults(scheme)
	})
}
