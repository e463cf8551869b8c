package operate

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"github.com/sigma-scheduler/sigma/plugins/revision"
)

// clusterOf has PlacementPolicies.
func clusterOf() *Cluster {
	kinds := map[schema.GroupVersionResource]string{policies: "PlacementPolicyList"}
	return &Cluster{Client: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds)}
}

// TestApply: a policy comes in shadow, whatever its file says, and one that decides is not replaced.
func TestApply(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`apiVersion: sigma-scheduler.io/v1alpha1
kind: PlacementPolicy
metadata: {name: learned}
spec: {featureVersion: 1, model: rule, knowledge: K0, features: [], weights: [], rule: {name: bestfit}, mode: live, canaryPercent: 7}
`), 0o600))
	c := clusterOf()
	done, err := c.Apply(t.Context(), "candidate", file, false, false)
	require.NoError(t, err)
	require.Equal(t, "none → shadow", done.From+" → "+done.To)
	get := func() *unstructured.Unstructured {
		o, err := c.Client.Resource(policies).Get(t.Context(), "candidate", metav1.GetOptions{})
		require.NoError(t, err)
		return o
	}
	o := get()
	spec := o.Object["spec"].(map[string]any)
	require.Equal(t, "shadow", revision.Mode(spec))
	require.NotContains(t, spec, "canaryPercent")

	spec["rule"], spec["maxShareOfApp"] = map[string]any{"name": "worstfit"}, .3
	_, err = c.Client.Resource(policies).Update(t.Context(), o, metav1.UpdateOptions{})
	require.NoError(t, err)
	_, err = c.Apply(t.Context(), "candidate", file, false, false)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"name": "bestfit"}, get().Object["spec"].(map[string]any)["rule"])
	require.InDelta(t, .3, get().Object["spec"].(map[string]any)["maxShareOfApp"], 0, "what people set stays")

	o = get()
	o.Object["spec"].(map[string]any)["mode"] = "live"
	_, err = c.Client.Resource(policies).Update(t.Context(), o, metav1.UpdateOptions{})
	require.NoError(t, err)
	_, err = c.Apply(t.Context(), "candidate", file, false, false)
	require.ErrorContains(t, err, "candidate decides (live): it is not replaced\nnext: the same with --demote, or with another name")
	done, err = c.Apply(t.Context(), "candidate", file, true, false)
	require.NoError(t, err)
	require.Equal(t, "live → shadow", done.From+" → "+done.To)
	require.Equal(t, "shadow", revision.Mode(get().Object["spec"].(map[string]any)))

	o = get()
	o.Object["spec"].(map[string]any)["provenance"] = map[string]any{"pilot": "general"}
	_, err = c.Client.Resource(policies).Update(t.Context(), o, metav1.UpdateOptions{})
	require.NoError(t, err)
	_, err = c.Apply(t.Context(), "candidate", file, true, false)
	require.ErrorContains(t, err, "candidate is of the PolicyPilot general")
	_, err = c.Apply(t.Context(), "candidate", file+"x", false, false)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.False(t, apierrors.IsNotFound(err))
}
