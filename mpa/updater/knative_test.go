package updater

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/knative"
)

func seeded(a, b int) *rand.Rand { return rand.New(rand.NewPCG(uint64(a), uint64(b))) } //nolint:gosec // a stream that a seed begins

// What was learned becomes a Revision with a tenth of the requests, and then has all of them.
func TestKnativePromotes(t *testing.T) {
	s := newKnativeSite(t, seeded(1, 1))
	s.steady(10 * time.Second)
	u := s.service()
	assert.Equal(t, knative.Canary, s.state().Phase)
	v, err := knative.Read(u)
	require.NoError(t, err)
	assert.Equal(t, []knative.Traffic{{Revision: "web-00001", Percent: 90}, {Percent: 10}}, v.Traffic)
	limit, _, _ := unstructured.NestedInt64(u.Object, "spec", "template", "spec", "containerConcurrency")
	assert.Equal(t, int64(8), limit)
	a, _, _ := unstructured.NestedStringMap(u.Object, "spec", "template", "metadata", "annotations")
	assert.Equal(t, map[string]string{
		"autoscaling.knative.dev/max-scale": "20", "autoscaling.knative.dev/class": "kpa.autoscaling.knative.dev",
		"autoscaling.knative.dev/metric": "rps", "autoscaling.knative.dev/target": "40", "autoscaling.knative.dev/target-utilization-percentage": "70",
	}, a)
	s.steady(30 * time.Second)
	status := s.object().Status.Knative
	assert.Equal(t, "canary of web-00002 at 10 %", status.Summary)
	assert.Equal(t, []string{"web-00001", "web-00002"}, []string{status.Stable, status.Canary})
	s.phase(knative.Promoted)
	s.steady(10 * time.Minute)
	assert.Equal(t, []knative.Traffic{{Percent: 100}}, read(t, s).Traffic)
	assert.Equal(t, 1, s.canaries)
	assert.Empty(t, s.problems)
	assert.Contains(t, s.object().Status.Knative.Summary, "promoted: ")
	assert.Equal(t, map[string]string{"team": "a", knative.Annotation: s.service().GetAnnotations()[knative.Annotation]}, s.service().GetAnnotations())
	assert.Len(t, s.seenEvents, 2, "%v", s.seenEvents)
}

// One that is worse goes back, and is not tried again until the workload changes.
func TestKnativeRollsBack(t *testing.T) {
	s := newKnativeSite(t, seeded(1, 2))
	s.late = .5
	s.phase(knative.RolledBack)
	s.steady(time.Hour)
	v := read(t, s)
	assert.Equal(t, []knative.Traffic{{Percent: 100}}, v.Traffic)
	assert.Equal(t, knative.Fields{Limit: new(int64(0)), Annotations: map[string]string{}}, v.Fields)
	assert.Equal(t, 1, s.canaries, "it is not tried again")
	assert.Empty(t, s.problems)
	status := s.object().Status.Knative
	assert.Contains(t, status.Summary, "rolled back: ")
	assert.Contains(t, status.Reason, "8 at once and 40 requests/s a pod are not tried again: ")
	s.edit(image)
	s.late = 0
	s.phase(knative.Promoted)
	assert.Equal(t, 2, s.canaries, "the workload is another one")
}

func read(t *testing.T, s *knativeSite) knative.Service {
	t.Helper()
	return mustRead(t, s.service())
}

// One Service that cannot be looked after is no reason to leave the others.
func TestKnativeSweep(t *testing.T) {
	s := newKnativeSite(t, seeded(1, 3))
	s.canary()
	state := s.state()
	add := func(name string, annotate bool, change func(*knative.State)) *unstructured.Unstructured {
		u := s.service()
		u.SetName(name)
		u.SetResourceVersion("")
		of := state
		change(&of)
		u.SetAnnotations(nil)
		if annotate {
			u.SetAnnotations(map[string]string{knative.Annotation: of.String()})
		}
		require.NoError(t, s.api.Create(t.Context(), u))
		return u
	}
	get := func(u *unstructured.Unstructured) *unstructured.Unstructured {
		require.NoError(t, s.api.Get(t.Context(), client.ObjectKeyFromObject(u), u))
		return u
	}
	same := func(*knative.State) {}
	bare := add("a-bare", false, same)
	nameless := add("b-nameless", true, func(s *knative.State) { s.Object = "" })
	twin := add("c-copy", true, same)
	gone := add("d-gone", true, func(s *knative.State) { s.Object = "gone" })
	_, err := s.leaders[0].sweep(t.Context(), client.HasLabels{knative.Annotation})
	require.ErrorContains(t, err, "service shop/b-nameless: resource name may not be empty")
	assert.NotContains(t, get(bare).GetLabels(), knative.Annotation, "a label alone")
	assert.Equal(t, state.Ours.Fields(), mustRead(t, get(nameless)).Fields)
	for _, u := range []*unstructured.Unstructured{twin, gone} {
		assert.Equal(t, []knative.Traffic{{Revision: state.Stable, Percent: 100}}, mustRead(t, get(u)).Traffic, u.GetName())
	}
	assert.Equal(t, knative.Canary, s.state().Phase, "that of the object goes on")
}

// Without the rights nothing is known of Services, and that is no silence.
func TestKnativeSweepForbidden(t *testing.T) {
	s := newKnativeSite(t, seeded(1, 4))
	l := s.leader()
	l.direct = interceptor.NewClient(s.api, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return apierrors.NewForbidden(schema.GroupResource{Group: v1alpha1.Knative, Resource: "services"}, "", nil)
	}})
	_, err := l.sweep(t.Context(), client.HasLabels{knative.Annotation})
	require.ErrorIs(t, err, errForbidden)
	deleteObject(s)
	result, err := l.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
	require.NoError(t, err)
	assert.Zero(t, result)
}

// A Service that goes between reading and writing is looked for again.
func TestKnativeServiceGoes(t *testing.T) {
	s := newKnativeSite(t, seeded(1, 5))
	s.knative()
	s.serve()
	s.once(func(func() error) error {
		return apierrors.NewNotFound(schema.GroupResource{Group: v1alpha1.Knative, Resource: "services"}, "web")
	})
	result, err := s.leaders[0].Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
	require.NoError(t, err)
	assert.Positive(t, result.RequeueAfter)
}

func mustRead(t *testing.T, u *unstructured.Unstructured) knative.Service {
	t.Helper()
	v, err := knative.Read(u)
	require.NoError(t, err)
	return v
}
