//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/lab/e2e"
)

// An image with a digest is not looked up in a registry.
const knativeService = `
apiVersion: serving.knative.dev/v1
kind: Service
metadata: {name: NAME, namespace: default}
spec:
  template:
    metadata:
      annotations: {autoscaling.knative.dev/min-scale: "2"}
    spec:
      containers:
      - image: registry.example/function@sha256:0000000000000000000000000000000000000000000000000000000000000000
        resources: {requests: {cpu: "1", memory: 512Mi}, limits: {cpu: "1", memory: 512Mi}}
`

// patchKnative merges a patch into one of Knative's objects.
func patchKnative(t *testing.T, c *e2e.Cluster, kind schema.GroupVersionResource, name, patch string) *unstructured.Unstructured {
	t.Helper()
	require.True(t, json.Valid([]byte(patch)), patch)
	object, err := c.Dynamic.Resource(kind).Namespace("default").Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(t, err)
	return object
}

// TestKnativeItself: what the autoscaler relies on is what Knative does.
func TestKnativeItself(t *testing.T) {
	c := ownCluster(t)
	begin := time.Now()
	k := c.StartKnative(t)
	t.Logf("Knative's programs are ready after %v", time.Since(begin))
	c.Kubectl(t, strings.ReplaceAll(knativeService, "NAME", "web"), "apply", "-f", "-")
	first := k.WaitReady(t, "default", "web")
	t.Logf("a Service is ready after %v", time.Since(begin))
	require.Equal(t, e2e.Split{first: 100}, k.Split("default", "web"))
	c.WaitRunning(t, "default", 2)

	begin = time.Now()
	patchKnative(t, c, e2e.KnativeServices, "web", `{"spec": {"template": {"spec": {"containerConcurrency": 7}}}}`)
	e2e.Wait(t, "a second Revision", func() (string, bool) {
		all := k.Revisions(t, "default", "web")
		return fmt.Sprint(all), len(all) == 2
	})
	t.Logf("the second Revision is there after %v", time.Since(begin))
	second := k.WaitReady(t, "default", "web")
	t.Logf("and serves after %v", time.Since(begin))
	require.NotEqual(t, first, second)
	e2e.Wait(t, "its share", func() (string, bool) {
		return fmt.Sprint(k.Splits("default", "web")), k.Split("default", "web")[second] == 100
	})

	// What is written to the PodAutoscaler is undone, but for the metric.
	const metric, target = "autoscaling.knative.dev/metric", "autoscaling.knative.dev/target"
	set := func(kind schema.GroupVersionResource, rate string) {
		patchKnative(t, c, kind, second, `{"metadata": {"annotations": {"`+metric+`": "rps", "`+target+`": "`+rate+`"}}}`)
	}
	has := func(kind schema.GroupVersionResource) [2]string {
		annotations := k.Get(t, kind, "default", second).GetAnnotations()
		return [2]string{annotations[metric], annotations[target]}
	}
	wait := func(want ...string) {
		t.Helper()
		e2e.Wait(t, "the PodAutoscaler", func() (string, bool) {
			is := has(e2e.KnativeScalers)
			return fmt.Sprint(is), is == [2]string(want)
		})
	}
	require.Equal(t, [2]string{"concurrency", ""}, has(e2e.KnativeScalers))
	set(e2e.KnativeScalers, "40")
	wait("rps", "")

	// What is written to the Revision comes to its PodAutoscaler and stays, over a restart of the
	// controller and a change of the traffic too, and makes no other Revision.
	set(e2e.KnativeRevisions, "40")
	wait("rps", "40")
	k.Controller.Restart(t)
	set(e2e.KnativeRevisions, "50")
	wait("rps", "50")
	patchKnative(t, c, e2e.KnativeServices, "web", `{"spec": {"traffic": [{"revisionName": "`+first+`", "percent": 90}, {"revisionName": "`+second+`", "percent": 10}]}}`)
	e2e.Wait(t, "the split", func() (string, bool) {
		is := k.Split("default", "web")
		return fmt.Sprint(is), maps.Equal(is, e2e.Split{first: 90, second: 10})
	})
	k.WaitReady(t, "default", "web")
	require.Equal(t, [2]string{"rps", "50"}, has(e2e.KnativeRevisions))
	require.Equal(t, [2]string{"rps", "50"}, has(e2e.KnativeScalers))
	require.Equal(t, []string{first, second}, k.Revisions(t, "default", "web"))
	t.Log(k.Splits("default", "web"))
}
