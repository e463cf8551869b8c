package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of Sigma's objects.
const GroupName = "sigma-scheduler.io"

// SchemeGroupVersion is the group and version of this package's objects.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

var schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme registers this package's objects.
var AddToScheme = schemeBuilder.AddToScheme

// Resource qualifies a resource such as placementpolicies with the group.
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		&PlacementPolicy{}, &PlacementPolicyList{},
		&PlacementRule{}, &PlacementRuleList{},
		&PlacementPlan{}, &PlacementPlanList{},
		&Rebalance{}, &RebalanceList{},
		&PolicyPilot{}, &PolicyPilotList{},
	)
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
