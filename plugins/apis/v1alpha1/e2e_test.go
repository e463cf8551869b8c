//go:build e2e

package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/internal/crdtest"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
)

// A server is a real API server that has the definitions.
type server struct {
	objects dynamic.Interface
	typed   *rest.RESTClient
}

// theServer is that of $KUBECONFIG; `lab/controlplane/run.sh go test -tags e2e`
// sets it. It must be one for tests: policies of the shipped names are replaced.
func theServer(t *testing.T) server {
	t.Helper()
	file := os.Getenv("KUBECONFIG")
	require.NotEmpty(t, file, "KUBECONFIG")
	config, err := clientcmd.BuildConfigFromFlags("", file)
	require.NoError(t, err)
	config.QPS = -1
	s := server{}
	s.objects, err = dynamic.NewForConfig(config)
	require.NoError(t, err)

	crds := s.objects.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	for _, plural := range []string{"placementpolicies", "placementrules", "placementplans", "rebalances", "policypilots"} {
		text, err := os.ReadFile(crdFile(plural))
		require.NoError(t, err)
		crd := object(t, text)
		_, err = crds.Apply(t.Context(), crd.GetName(), crd, metav1.ApplyOptions{FieldManager: "test", Force: true})
		require.NoError(t, err)
		require.Eventually(t, func() bool { // served, and with the schema just applied
			_, err := s.of(plural).List(t.Context(), metav1.ListOptions{})
			return err == nil
		}, time.Minute, 100*time.Millisecond, plural)
	}

	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	config.GroupVersion = &v1alpha1.SchemeGroupVersion
	config.APIPath = "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	s.typed, err = rest.RESTClientFor(config)
	require.NoError(t, err)
	return s
}

func (s server) of(plural string) dynamic.ResourceInterface {
	return s.objects.Resource(v1alpha1.SchemeGroupVersion.WithResource(plural))
}

// create does as kubectl does: an unknown field is an error.
func (s server) create(t *testing.T, plural string, text []byte) error {
	t.Helper()
	o := object(t, text)
	_, err := s.of(plural).Create(t.Context(), o, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	return err
}

// replace also deletes what was there, and what it creates at the end.
func (s server) replace(t *testing.T, plural string, text []byte) {
	t.Helper()
	remove := func() {
		err := s.of(plural).Delete(t.Context(), object(t, text).GetName(), metav1.DeleteOptions{})
		require.True(t, err == nil || apierrors.IsNotFound(err), "%v", err)
	}
	remove()
	require.NoError(t, s.create(t, plural, text))
}

func object(t *testing.T, text []byte) *unstructured.Unstructured {
	t.Helper()
	asJSON, err := yaml.YAMLToJSON(text)
	require.NoError(t, err)
	var o unstructured.Unstructured
	require.NoError(t, o.UnmarshalJSON(asJSON))
	return &o
}

// TestServedPolicies: each shipped policy is taken and comes back, by a typed
// client, as the same one.
func TestServedPolicies(t *testing.T) {
	s := theServer(t)
	files := shippedPolicies(t)
	files["largest"] = largestPolicy()
	for name, text := range files {
		s.replace(t, "placementpolicies", text)
		was, err := policy.Parse(name, text)
		require.NoError(t, err)

		var stored v1alpha1.PlacementPolicy
		require.NoError(t, s.typed.Get().Resource("placementpolicies").Name(was.Metadata.Name).Do(t.Context()).Into(&stored), name)
		// A written status must not touch the rest.
		stored.Status = v1alpha1.PlacementPolicyStatus{ObservedGeneration: stored.Generation, Digest: was.Digest()}
		require.NoError(t, s.typed.Put().Resource("placementpolicies").Name(stored.Name).SubResource("status").
			Body(&stored).Do(t.Context()).Into(&stored), name)
		require.EqualValues(t, 1, stored.Generation)
		text, err = json.Marshal(map[string]any{
			"apiVersion": policy.APIVersion, "kind": policy.ObjectKind,
			"metadata": map[string]any{"name": stored.Name}, "spec": stored.Spec, "status": stored.Status,
		})
		require.NoError(t, err)
		is, err := policy.Parse(name, text)
		require.NoError(t, err)
		require.Equal(t, was.Digest(), is.Digest(), name)
		require.Equal(t, was.Spec.Provenance, is.Spec.Provenance, name)
		require.Equal(t, was.Digest(), is.Status["digest"], name)
	}
}

func TestServerRefusesPolicies(t *testing.T) {
	s := theServer(t)
	for _, tt := range badPolicies {
		t.Run(tt.name, func(t *testing.T) {
			err := s.create(t, "placementpolicies", badPolicy(t, tt.old, tt.replaced))
			require.ErrorContains(t, err, tt.want)
			require.True(t, apierrors.IsInvalid(err) || apierrors.IsBadRequest(err), "%v", err)
		})
	}
}

func TestServedRules(t *testing.T) {
	s := theServer(t)
	for _, spec := range goodRules {
		s.replace(t, "placementrules", ruleText(spec))
		var stored v1alpha1.PlacementRule
		require.NoError(t, s.typed.Get().Resource("placementrules").Name("r").Do(t.Context()).Into(&stored))
		_, err := metav1.LabelSelectorAsSelector(&stored.Spec.Selector)
		require.NoError(t, err, spec)
	}
	for _, tt := range badRules {
		t.Run(tt.name, func(t *testing.T) {
			require.ErrorContains(t, s.create(t, "placementrules", ruleText(tt.spec)), tt.want)
		})
	}
}

// TestListsAreReplaced: weights and features of two appliers are never mixed.
func TestListsAreReplaced(t *testing.T) {
	s := theServer(t)
	apply := func(manager, features, weights, parameters string) {
		o := object(t, fmt.Appendf(nil, `{apiVersion: sigma-scheduler.io/v1alpha1, kind: PlacementPolicy, metadata: {name: applied},
			spec: {featureVersion: 1, model: linear, knowledge: K1, features: [%s], weights: [%s], parameters: {%s}}}`, features, weights, parameters))
		_, err := s.of("placementpolicies").Apply(t.Context(), "applied", o, metav1.ApplyOptions{FieldManager: manager, Force: true})
		require.NoError(t, err)
	}
	apply("one", "util, full, frag", "1, 2, 3", "eta: 1")
	apply("two", "frag, mean", "4, 5", "z: 0")
	var stored v1alpha1.PlacementPolicy
	require.NoError(t, s.typed.Get().Resource("placementpolicies").Name("applied").Do(t.Context()).Into(&stored))
	require.Equal(t, []string{"frag", "mean"}, stored.Spec.Features)
	require.Equal(t, []float64{4, 5}, stored.Spec.Weights)
	require.Equal(t, map[string]float64{"z": 0}, stored.Spec.Parameters)
}

// TestColumns: what `kubectl get` prints.
func TestColumns(t *testing.T) {
	s := theServer(t)
	s.replace(t, "placementpolicies", []byte(policyText))
	var p v1alpha1.PlacementPolicy
	require.NoError(t, s.typed.Get().Resource("placementpolicies").Name("general").Do(t.Context()).Into(&p))
	meta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: "Loaded", Message: "fine"})
	meta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionActive, Status: metav1.ConditionFalse, Reason: "NotNamed", Message: "no scheduler names it"})
	require.NoError(t, s.typed.Put().Resource("placementpolicies").Name("general").SubResource("status").Body(&p).Do(t.Context()).Error())
	require.Equal(t, map[string]any{
		"Name": "general", "Model": "linear", "Knowledge": "K1+clock", "Mode": "canary",
		"Accepted": "True", "Active": "False", "Why-Not": "no scheduler names it",
	}, s.columns(t, "placementpolicies", "general"))

	s.replace(t, "placementrules", ruleText("selector: {}, maxPerNode: 2"))
	var r v1alpha1.PlacementRule
	require.NoError(t, s.typed.Get().Resource("placementrules").Name("r").Do(t.Context()).Into(&r))
	meta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionFalse, Reason: "Selector", Message: "a label"})
	r.Status.Conflicts = 3
	require.NoError(t, s.typed.Put().Resource("placementrules").Name("r").SubResource("status").Body(&r).Do(t.Context()).Error())
	require.Equal(t, map[string]any{
		"Name": "r", "Max-Per-Node": 2.0, "Spread-Min": nil, "Accepted": "False", "Conflicts": 3.0, "Message": "a label",
	}, s.columns(t, "placementrules", "r"))
}

// columns are those of an object that are always shown, without its age.
func (s server) columns(t *testing.T, plural, name string) map[string]any {
	t.Helper()
	text, err := s.typed.Get().Resource(plural).Name(name).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(t.Context()).Raw()
	require.NoError(t, err)
	return crdtest.Cells(t, text)
}
