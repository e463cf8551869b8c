package updater

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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
		"autoscaling.knative.dev/metric": "rps", "autoscaling.knative.dev/target": "40", "autoscaling.knative.dev/target-utilization-percentage": "100",
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
	v, err := knative.Read(s.service())
	require.NoError(t, err)
	return v
}

var _ = v1alpha1.PodKnative
