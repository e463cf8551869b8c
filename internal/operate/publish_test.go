package operate

import (
	"os"
	"path/filepath"
	"strings"
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

// clusterOf has the ConfigMap verdict, and PlacementPolicies.
func clusterOf(objects ...runtime.Object) *Cluster {
	held := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "verdict", "namespace": "loop"},
		"binaryData": map[string]any{"old.html.gz": "b2xk"},
	}}
	kinds := map[schema.GroupVersionResource]string{policies: "PlacementPolicyList", configMaps: "ConfigMapList"}
	return &Cluster{Client: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, append(objects, held)...), Namespace: "loop"}
}

// TestPublish: files come back as they were, in place of those that were there.
func TestPublish(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	page, gone := file("verdict.html", strings.Repeat("worth it ", 1<<18)), filepath.Join(dir, "policy.yaml")
	c := clusterOf()
	_, err := c.Publish(t.Context(), "verdict", []string{page, gone}, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	names, err := c.Publish(t.Context(), "verdict", []string{page}, []string{gone})
	require.NoError(t, err)
	require.Equal(t, []string{"verdict.html"}, names)
	out := filepath.Join(dir, "out")
	names, err = c.Fetch(t.Context(), "verdict", out)
	require.NoError(t, err)
	require.Equal(t, []string{"verdict.html"}, names)
	text, err := os.ReadFile(filepath.Join(out, "verdict.html"))
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("worth it ", 1<<18), string(text))

	_, err = c.Publish(t.Context(), "none", []string{page}, nil)
	require.ErrorContains(t, err, "there is no ConfigMap none in namespace loop\nnext: kubectl create configmap -n loop none")
	_, err = c.Fetch(t.Context(), "none", out)
	require.ErrorContains(t, err, "there is no ConfigMap none in namespace loop")
	_, err = c.Publish(t.Context(), "verdict", []string{page, page}, nil)
	require.ErrorContains(t, err, "there are two files of the name verdict.html")
	noise := make([]byte, 1<<20)
	for i, x := 0, uint32(1); i < len(noise); i++ {
		x = x*1664525 + 1013904223
		noise[i] = byte(x >> 24)
	}
	_, err = c.Publish(t.Context(), "verdict", []string{file("noise", string(noise))}, nil)
	require.ErrorContains(t, err, "bytes packed, and a ConfigMap holds 983040")
}

// TestFetchForeign: what publish has not written is refused.
func TestFetchForeign(t *testing.T) {
	for key, why := range map[string]string{"page.html": "want the name of a file that ends in .gz", "page.gz": "unexpected EOF", "..%2fpage.gz": "EOF"} {
		c := clusterOf()
		o, err := c.Client.Resource(configMaps).Namespace("loop").Get(t.Context(), "verdict", metav1.GetOptions{})
		require.NoError(t, err)
		o.Object["binaryData"] = map[string]any{key: "aGk="}
		_, err = c.Client.Resource(configMaps).Namespace("loop").Update(t.Context(), o, metav1.UpdateOptions{})
		require.NoError(t, err)
		_, err = c.Fetch(t.Context(), "verdict", t.TempDir())
		require.ErrorContains(t, err, key)
		require.ErrorContains(t, err, why)
	}
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
