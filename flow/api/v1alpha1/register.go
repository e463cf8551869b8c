package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of these objects.
const GroupName = "flow.sigma-scheduler.io"

// SchemeGroupVersion is the group and version of this package's objects.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

var schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme registers this package's objects.
var AddToScheme = schemeBuilder.AddToScheme

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, &FlowPolicy{}, &FlowPolicyList{}, &NodeFlows{}, &NodeFlowsList{})
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
