package central

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/flow/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/flow/tune"
)

// A stub has policies, and takes the status of all but one.
type stub struct {
	client.Client
	policies []v1alpha1.FlowPolicy
	refuses  string
	written  []string
}

func (s *stub) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if l, ok := list.(*v1alpha1.FlowPolicyList); ok {
		l.Items = s.policies
	}
	return nil
}

func (s *stub) Status() client.SubResourceWriter { return stubStatus{of: s} }

type stubStatus struct {
	of *stub
	client.SubResourceWriter
}

func (s stubStatus) Patch(_ context.Context, o client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	if o.GetName() == s.of.refuses {
		return errors.New("too large")
	}
	s.of.written = append(s.of.written, o.GetName())
	return nil
}

// A policy whose status cannot be written does not stop those after it.
func TestOneIsRefused(t *testing.T) {
	s := &stub{refuses: "b"}
	for _, name := range []string{"a", "b", "c"} {
		p := v1alpha1.FlowPolicy{Spec: live()}
		p.Name, p.UID = name, types.UID(name)
		s.policies = append(s.policies, p)
	}
	r := &Runner{Every: time.Minute, Now: func() time.Time { return begin }, client: s}
	err := r.step(t.Context(), &Central{Every: time.Minute, Tuner: tune.Tuner{}})
	require.ErrorContains(t, err, "FlowPolicy b: too large")
	require.Equal(t, []string{"a", "c"}, s.written)
}
