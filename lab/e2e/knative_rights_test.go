//go:build e2e

package e2e_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sigma-scheduler/sigma/lab/e2e"
)

// knativeRights gives the autoscaler its rights to Knative, with what they may be used for.
func knativeRights(t *testing.T, c *e2e.Cluster) {
	t.Helper()
	folder := filepath.Join(repository, "manifests", "mpa", "knative")
	c.Kubectl(t, "", "apply", "-f", filepath.Join(folder, "rbac.yaml"), "-f", filepath.Join(folder, "admission.yaml"))
}

// fencedService has what a fence has to tell apart: labels, annotations and fields that are others'.
const fencedService = `
apiVersion: serving.knative.dev/v1
kind: Service
metadata: {name: web, namespace: default, labels: {team: a}, annotations: {example.org/x: "1"}}
spec:
  template:
    metadata:
      labels: {team: a}
      annotations: {autoscaling.knative.dev/min-scale: "2", autoscaling.knative.dev/target: "70"}
    spec:
      timeoutSeconds: 60
      containers:
      - name: web
        image: registry.example/function@sha256:0000000000000000000000000000000000000000000000000000000000000000
        ports: [{containerPort: 8080}]
        env: [{name: A, value: "1"}]
        resources: {requests: {cpu: "1"}}
      - name: beside
        image: registry.example/beside@sha256:0000000000000000000000000000000000000000000000000000000000000000
`

// A change of an object: a value at a path of fields, where numbers are places in a list; nil = it goes.
type change struct {
	value any
	path  []any
}

func (c change) String() string { return fmt.Sprint(c.path, " = ", c.value) }

// on carries a change out.
func (c change) on(u *unstructured.Unstructured) {
	var at any = u.Object
	for i, step := range c.path {
		last := i == len(c.path)-1
		if n, ok := step.(int); ok {
			at = at.([]any)[n]
			continue
		}
		m, name := at.(map[string]any), step.(string)
		switch {
		case last && c.value == nil:
			delete(m, name)
		case last:
			m[name] = c.value
		default:
			if m[name] == nil {
				m[name] = map[string]any{}
			}
			at = m[name]
		}
	}
}

// TestKnativeRight: the right to update Knative Services and to patch Revisions is good for what the
// autoscaler writes and nothing else, of the account of either form, with Knative's own webhook before it.
func TestKnativeRight(t *testing.T) {
	c := ownCluster(t)
	c.Kubectl(t, "", "apply", "-k", filepath.Join(repository, "manifests", "mpa", "base"))
	k := c.StartKnative(t)
	knativeRights(t, c)
	c.Kubectl(t, "", "patch", "configmap", "config-features", "-n", "knative-serving", "--type=merge", "-p", `{"data": {"multi-container": "enabled"}}`)
	c.Kubectl(t, fencedService, "apply", "-f", "-")
	revision := k.WaitReady(t, "default", "web")

	const ours = "autoscaling.sigma-scheduler.io/concurrency"
	annotation := func(value any, name string) change {
		return change{value, []any{"spec", "template", "metadata", "annotations", "autoscaling.knative.dev/" + name}}
	}
	container := func(value any, path ...any) change {
		return change{value, append([]any{"spec", "template", "spec", "containers"}, path...)}
	}
	of := func(value any, path ...any) change { return change{value, path} }
	traffic := func(entries ...any) change { return of(entries, "spec", "traffic") }
	type entry = map[string]any
	var update func(changes ...change) error // of the last account
	for _, name := range []string{"sigma-mpa", "sigma-mpa-updater"} {
		config, err := clientcmd.BuildConfigFromFlags("", accountKubeconfig(t, c, mpaSystem, name))
		require.NoError(t, err)
		account, err := dynamic.NewForConfig(config)
		require.NoError(t, err)
		services, revisions := account.Resource(e2e.KnativeServices).Namespace("default"), account.Resource(e2e.KnativeRevisions).Namespace("default")
		update = func(changes ...change) error {
			for {
				u, err := services.Get(t.Context(), "web", metav1.GetOptions{})
				if err != nil {
					return err
				}
				for _, c := range changes {
					c.on(u)
				}
				_, err = services.Update(t.Context(), u, metav1.UpdateOptions{})
				if err == nil || !strings.Contains(err.Error(), "the object has been modified") { // Knative writes its status
					return err
				}
			}
		}
		e2e.Wait(t, "the right", func() (string, bool) {
			_, err := services.Get(t.Context(), "web", metav1.GetOptions{})
			return fmt.Sprint(err), err == nil
		})
		e2e.Wait(t, "the policy", func() (string, bool) { // until it refuses
			err := update(of(fmt.Sprint(time.Now().UnixNano()), "metadata", "labels", "more"))
			return fmt.Sprint(err), err != nil && strings.Contains(err.Error(), "sigma-mpa sets one label")
		})
		for _, tt := range []struct {
			message string
			changes []change
		}{
			{"sets one label", []change{of("b", "metadata", "labels", "team")}},
			{"sets one label", []change{of(nil, "metadata", "labels", "team")}},
			{"sets one label", []change{of([]any{"example.com/x"}, "metadata", "finalizers")}},
			{"sets one label", []change{of([]any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x"}}, "metadata", "ownerReferences")}},
			{"sets one annotation", []change{of("2", "metadata", "annotations", "example.org/x")}},
			{"sets one annotation", []change{of(nil, "metadata", "annotations", "example.org/x")}},
			{"sets one annotation", []change{of("1", "metadata", "annotations", "networking.knative.dev/visibility")}},
			{"sets one annotation", []change{of("another", "metadata", "annotations", "serving.knative.dev/lastModifier")}},
			{"in the template of a Knative Service", []change{annotation("3", "min-scale")}},
			{"in the template of a Knative Service", []change{annotation(nil, "min-scale")}},
			{"in the template of a Knative Service", []change{annotation("30", "max-scale")}},
			{"in the template of a Knative Service", []change{annotation("40", "target"), annotation("0s", "scale-down-delay")}},
			{"in the template of a Knative Service", []change{of("b", "spec", "template", "metadata", "labels", "team")}},
			{"in the template of a Knative Service", []change{of(nil, "spec", "template", "metadata", "labels")}},
			{"in the template of a Knative Service", []change{of("web-blue", "spec", "template", "metadata", "name")}},
			{"sets the class", []change{annotation("hpa.autoscaling.knative.dev", "class")}},
			{"sets the class", []change{annotation("", "class")}},
			{"leads the traffic", []change{traffic(entry{"latestRevision": true, "percent": int64(100), "tag": "next"})}},
			{"leads the traffic", []change{traffic(entry{"revisionName": revision, "percent": int64(100)}, entry{"latestRevision": true, "percent": int64(0), "tag": "next"})}},
			{"leads the traffic", []change{traffic(entry{"configurationName": "web", "percent": int64(100)})}},
			{"leads the traffic", []change{traffic(entry{"revisionName": "another-00001", "percent": int64(100)})}},
			{"leads the traffic", []change{traffic(entry{"revisionName": revision, "percent": int64(90)}, entry{"revisionName": revision, "percent": int64(10)})}},
			{"leads the traffic", []change{traffic(entry{"revisionName": revision, "percent": int64(90)}, entry{"latestRevision": true, "percent": int64(5)}, entry{"latestRevision": true, "percent": int64(5)})}},
			{"changes no container", []change{of("other", "spec", "template", "spec", "serviceAccountName")}},
			{"changes no container", []change{of(int64(61), "spec", "template", "spec", "timeoutSeconds")}},
			{"changes no container", []change{container("registry.example/x@sha256:0000000000000000000000000000000000000000000000000000000000000000", 0, "image")}},
			{"changes no container", []change{container("registry.example/x@sha256:0000000000000000000000000000000000000000000000000000000000000000", 1, "image")}},
			{"changes no container", []change{container([]any{"sh"}, 0, "command")}},
			{"changes no container", []change{container("2", 0, "env", 0, "value")}},
			{"changes no container", []change{container(nil, 0, "env")}},
			{"changes no container", []change{container("another", 1, "name")}},
			{"changes no container", []change{container("2", 0, "resources", "requests", "cpu")}},
			{"changes no container", []change{container(nil, 0, "resources", "requests", "cpu")}},
			{"changes no container", []change{container(nil, 0, "resources", "requests")}},
			{"changes no container", []change{container("1", 0, "resources", "limits", "example.com/device")}},
			{"changes no container", []change{of(int64(8), "spec", "template", "spec", "containerConcurrency"), container("2", 0, "env", 0, "value")}},
		} {
			require.ErrorContains(t, update(tt.changes...), tt.message, "%v", tt.changes)
		}
		swapped := func() error {
			u, err := services.Get(t.Context(), "web", metav1.GetOptions{})
			require.NoError(t, err)
			list, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
			list[0], list[1] = list[1], list[0]
			require.NoError(t, unstructured.SetNestedSlice(u.Object, list, "spec", "template", "spec", "containers"))
			_, err = services.Update(t.Context(), u, metav1.UpdateOptions{})
			return err
		}
		require.ErrorContains(t, swapped(), "changes no container")

		// What it writes, and the way back; the second account finds what the first has left.
		split := []any{map[string]any{"revisionName": revision, "latestRevision": false, "percent": int64(90)}, map[string]any{"latestRevision": true, "percent": int64(10)}}
		former := k.Get(t, e2e.KnativeServices, "default", "web")
		require.NoError(t, update(of("{}", "metadata", "annotations", ours), of("web", "metadata", "labels", ours), of(split, "spec", "traffic"),
			of(int64(8), "spec", "template", "spec", "containerConcurrency"), annotation("kpa.autoscaling.knative.dev", "class"), annotation("rps", "metric"),
			annotation("40", "target"), annotation("100", "target-utilization-percentage")))
		require.NoError(t, update(of([]any{map[string]any{"revisionName": revision, "percent": int64(100)}}, "spec", "traffic"),
			of(int64(0), "spec", "template", "spec", "containerConcurrency"), annotation(nil, "class"), annotation(nil, "metric"), annotation("70", "target"), annotation(nil, "target-utilization-percentage")))
		require.NoError(t, update(of(nil, "metadata", "annotations", ours), of(nil, "metadata", "labels", ours), of([]any{map[string]any{"latestRevision": true, "percent": int64(100)}}, "spec", "traffic")))
		now := k.Get(t, e2e.KnativeServices, "default", "web")
		require.Equal(t, former.Object["spec"], now.Object["spec"])
		require.Equal(t, "system:serviceaccount:"+mpaSystem+":"+name, now.GetAnnotations()["serving.knative.dev/lastModifier"])

		patch := func(text string) error {
			_, err := revisions.Patch(t.Context(), revision, types.MergePatchType, []byte(text), metav1.PatchOptions{})
			return err
		}
		for _, text := range []string{
			`{"metadata": {"annotations": {"autoscaling.knative.dev/class": "hpa.autoscaling.knative.dev"}}}`,
			`{"metadata": {"annotations": {"autoscaling.knative.dev/min-scale": null}}}`,
			`{"metadata": {"annotations": {"autoscaling.knative.dev/min-scale": "3"}}}`,
			`{"metadata": {"annotations": {"autoscaling.knative.dev/metric": "rps", "example.com/x": "1"}}}`,
			`{"metadata": {"labels": {"serving.knative.dev/service": "another"}}}`,
			`{"metadata": {"labels": {"more": "1"}}}`,
			`{"metadata": {"finalizers": ["example.com/x"]}}`,
			`{"metadata": {"ownerReferences": null}}`,
		} {
			require.ErrorContains(t, patch(text), "of a Knative Revision, and changes nothing else", text)
		}
		require.Error(t, patch(`{"spec": {"containerConcurrency": 9}}`), "Knative refuses it first")
		require.NoError(t, patch(`{"metadata": {"annotations": {"autoscaling.knative.dev/metric": "rps", "autoscaling.knative.dev/target": "40", "autoscaling.knative.dev/target-utilization-percentage": "100"}}}`))
		require.NoError(t, patch(`{"metadata": {"annotations": {"autoscaling.knative.dev/metric": null, "autoscaling.knative.dev/target": "70", "autoscaling.knative.dev/target-utilization-percentage": null}}}`))
	}

	// Defaults that an administrator has changed since come with any update of a Service.
	c.Kubectl(t, "", "patch", "configmap", "config-defaults", "-n", "knative-serving", "--type=merge", "-p",
		`{"data": {"revision-cpu-limit": "2", "revision-memory-request": "100Mi", "revision-idle-timeout-seconds": "30", "revision-response-start-timeout-seconds": "50"}}`)
	e2e.Wait(t, "the new defaults", func() (string, bool) {
		require.NoError(t, update(of("{}", "metadata", "annotations", ours)))
		text := fmt.Sprint(k.Get(t, e2e.KnativeServices, "default", "web").Object["spec"])
		return text, strings.Contains(text, "idleTimeoutSeconds:30") && strings.Contains(text, "responseStartTimeoutSeconds:50") && strings.Contains(text, "memory:100Mi") && strings.Contains(text, "limits:map[cpu:2]")
	})
	c.Kubectl(t, "", "label", "ksvc", "web", "-n", "default", "team=b", "--overwrite") // others may
}
