package oracle

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install" // the conversions
	registry "k8s.io/kubernetes/pkg/registry/core/pod"
)

// admit makes of a pod what the API server does to one that is created: defaults, matchLabelKeys that become
// parts of selectors, and validation.
func admit(p *v1.Pod) (*v1.Pod, error) {
	legacyscheme.Scheme.Default(p)
	internal := &core.Pod{}
	if err := legacyscheme.Scheme.Convert(p, internal, nil); err != nil {
		return nil, err
	}
	registry.Strategy.PrepareForCreate(context.Background(), internal)
	if list := registry.Strategy.Validate(context.Background(), internal); len(list) > 0 {
		return nil, list.ToAggregate()
	}
	out := &v1.Pod{}
	return out, legacyscheme.Scheme.Convert(internal, out, nil)
}
