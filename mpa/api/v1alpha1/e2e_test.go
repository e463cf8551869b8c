//go:build e2e

package v1alpha1_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/sigma-scheduler/sigma/internal/crdtest"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

var served = v1alpha1.SchemeGroupVersion.WithResource("multidimpodautoscalers")

// theServer is that of $KUBECONFIG, with the definition; `lab/controlplane/run.sh
// go test -tags e2e` sets it.
func theServer(t *testing.T) (dynamic.ResourceInterface, *rest.Config) {
	t.Helper()
	file := os.Getenv("KUBECONFIG")
	require.NotEmpty(t, file, "KUBECONFIG")
	config, err := clientcmd.BuildConfigFromFlags("", file)
	require.NoError(t, err)
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	text, err := os.ReadFile(crdFile)
	require.NoError(t, err)
	crd := parsed(t, text)
	_, err = client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).
		Apply(t.Context(), crd.GetName(), crd, metav1.ApplyOptions{FieldManager: "test", Force: true})
	require.NoError(t, err)
	objects := client.Resource(served).Namespace("default")
	require.Eventually(t, func() bool {
		_, err := objects.List(t.Context(), metav1.ListOptions{})
		return err == nil
	}, time.Minute, 100*time.Millisecond)
	return objects, config
}

func parsed(t *testing.T, text []byte) *unstructured.Unstructured {
	t.Helper()
	asJSON, err := yaml.YAMLToJSON(text)
	require.NoError(t, err)
	var o unstructured.Unstructured
	require.NoError(t, o.UnmarshalJSON(asJSON))
	return &o
}

// strict is as kubectl does: an unknown field is an error.
var strict = metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}

func replace(t *testing.T, objects dynamic.ResourceInterface, text []byte) *unstructured.Unstructured {
	t.Helper()
	o := parsed(t, text)
	o.SetNamespace("default")
	err := objects.Delete(t.Context(), o.GetName(), metav1.DeleteOptions{})
	require.True(t, err == nil || apierrors.IsNotFound(err), "%v", err)
	o, err = objects.Create(t.Context(), o, strict)
	require.NoError(t, err)
	return o
}

func TestServed(t *testing.T) {
	objects, _ := theServer(t)
	for name, text := range good(t) {
		t.Run(name, func(t *testing.T) { replace(t, objects, text) })
	}
}

func TestServerRefuses(t *testing.T) {
	objects, _ := theServer(t)
	for _, tt := range bad {
		t.Run(tt.name, func(t *testing.T) {
			_, err := objects.Create(t.Context(), parsed(t, changed(t, tt.old, tt.replaced)), strict)
			require.ErrorContains(t, err, tt.want)
			require.True(t, apierrors.IsInvalid(err) || apierrors.IsBadRequest(err), "%v", err)
		})
	}
}

func TestServerKeepsTheTarget(t *testing.T) {
	objects, _ := theServer(t)
	o := replace(t, objects, []byte(fullText))
	require.NoError(t, unstructured.SetNestedField(o.Object, "shop", "spec", "scaleTargetRef", "name"))
	_, err := objects.Update(t.Context(), o, metav1.UpdateOptions{})
	require.ErrorContains(t, err, "the target cannot be changed: make another object")
	require.True(t, apierrors.IsInvalid(err))
}

// TestTwoOwners: recommender and updater write their halves of the status, and neither
// takes the other's away.
func TestTwoOwners(t *testing.T) {
	objects, config := theServer(t)
	replace(t, objects, []byte(fullText))
	apply := func(owner, status string) {
		o := parsed(t, []byte(`{apiVersion: autoscaling.sigma-scheduler.io/v1alpha1, kind: MultidimPodAutoscaler, metadata: {name: web}, status: `+status+`}`))
		_, err := objects.Apply(t.Context(), "web", o, metav1.ApplyOptions{FieldManager: owner, Force: true}, "status")
		require.NoError(t, err)
	}
	apply(v1alpha1.OwnerRecommender, `{phase: Scaling, summary: OK, observed: {replicas: 3, ready: 2, sloRatio: "0.81"},
		decision: {action: Resize, source: vpa, replicas: 4, containers: [{name: main, cpu: 500m, memory: 1Gi}]},
		recommendation: {id: 7, time: "2026-01-01T00:00:00.000000Z", change: Requests, replicas: 3, containers: [{name: main, cpu: 500m}]},
		conditions: [{type: ScalingActive, status: "True", reason: R, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}`)
	apply(v1alpha1.OwnerUpdater, `{actuation: {id: 7, outcome: Partly}, conditions: [{type: AbleToScale, status: "True", reason: R, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}`)
	apply(v1alpha1.OwnerRecommender, `{phase: Holding, summary: OK, observed: {replicas: 3, ready: 3, sloRatio: "0.81"},
		decision: {action: Hold, source: vpa, replicas: 4, containers: [{name: main, cpu: 500m, memory: 1Gi}]},
		recommendation: {id: 7, time: "2026-01-01T00:00:00.000000Z", change: Requests, replicas: 3, containers: [{name: main, cpu: 500m}]},
		conditions: [{type: ScalingActive, status: "True", reason: R, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}`)
	o, err := objects.Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	outcome, _, err := unstructured.NestedString(o.Object, "status", "actuation", "outcome")
	require.NoError(t, err)
	require.Equal(t, "Partly", outcome)
	conditions, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
	require.NoError(t, err)
	require.Len(t, conditions, 2)

	require.Equal(t, map[string]any{
		"Name": "web", "Mode": "InPlace", "Phase": "Holding", "Source": "vpa", "Replicas": 3.0, "Desired": 4.0,
		"CPU": "500m", "Memory": "1Gi", "SLO": "0.81", "Learning": nil, "Condition": "OK", "Knative": nil,
	}, columns(t, config, "web"))
}

// columns are those of an object that are always shown, without its age.
func columns(t *testing.T, config *rest.Config, name string) map[string]any {
	t.Helper()
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion = "/apis", &v1alpha1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	require.NoError(t, err)
	text, err := client.Get().Namespace("default").Resource(served.Resource).Name(name).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(t.Context()).Raw()
	require.NoError(t, err)
	return crdtest.Cells(t, text)
}
