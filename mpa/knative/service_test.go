package knative

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const text = `{"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": {"name": "web", "generation": 3, "labels": {"a": "b"}}, "spec": {"template": {"spec": {"containers": [{"image": "i"}]}}}}`

func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	require.NoError(t, u.UnmarshalJSON([]byte(text)))
	return u
}

// What is written is read again, and the base of the template is the same with it and without.
func TestWriteAndRead(t *testing.T) {
	u := parsed(t, text)
	before, err := Read(u)
	require.NoError(t, err)
	assert.Equal(t, all(), before.Traffic)
	assert.Empty(t, before.Owner)
	owned := u.DeepCopy()
	owned.SetOwnerReferences([]metav1.OwnerReference{{Kind: "Team", Name: "a"}, {Kind: "InferenceService", Name: "web", Controller: new(true)}})
	of, err := Read(owned)
	require.NoError(t, err)
	assert.Equal(t, "InferenceService web", of.Owner)
	state := State{Object: "web", UID: "mpa", Phase: Canary, Since: start, Stable: "web-1", Ours: Setting{8, 40}, Before: before.Fields, Base: before.Base}
	out, err := Write(u, &Action{State: state, Fields: new(state.Ours.Fields()), Traffic: split("web-1", Percent)})
	require.NoError(t, err)
	v, err := Read(out)
	require.NoError(t, err)
	assert.Equal(t, before.Base, v.Base)
	assert.Equal(t, state.Ours.Fields(), v.Fields)
	assert.Equal(t, split("web-1", Percent), v.Traffic)
	again, err := StateOf(out)
	require.NoError(t, err)
	assert.Equal(t, state.String(), again.String())
	assert.Equal(t, map[string]string{"a": "b", Annotation: "web"}, out.GetLabels())
	back, err := Write(out, &Action{Drop: true, Fields: &before.Fields, Traffic: all()})
	require.NoError(t, err)
	assert.Empty(t, back.GetAnnotations())
	u.Object["spec"].(map[string]any)["traffic"] = []any{map[string]any{"latestRevision": true, "percent": int64(100)}}
	assert.Equal(t, u.Object["spec"], back.Object["spec"])
}

// What is rounded when it is written is what was learned: it is not written again and again.
func TestRoundedRate(t *testing.T) {
	for _, rate := range []float64{.01, .0149, .0199, .05999, .29, 44.479} {
		seen := fresh()
		seen.Learned.Rate = rate
		f := seen.Learned.Fields()
		seen.Service.Fields, seen.Service.Created.Fields, seen.Service.Ready.Fields = f, f, f
		a := Decide(DefaultTiming(), State{}, seen)
		assert.False(t, a.Write, "%v: %s", rate, a.Reason)
	}
}

// What cannot be a Service or a state is refused with its field.
func TestUnreadable(t *testing.T) {
	for changed, want := range map[string]string{
		`"spec": {}}`: "spec.template: it is missing",
		`"spec": {"template": {"spec": {"containerConcurrency": "8"}}}}`: "spec.template.",
		`"spec": {"template": {"metadata": {"annotations": {"a": 1}}}}}`: "spec.template.",
		`"spec": {"template": {}, "traffic": [{"percent": "all"}]}}`:     "spec.traffic[0]: ",
		`"spec": {"template": {}, "traffic": [5]}}`:                      "spec.traffic[0]: want an object",
		`"spec": {"template": {}, "traffic": {}}}`:                       "spec.traffic",
		`"spec": {"template": {"spec": {"containerConcurrency": 1.5}}}}`: "spec.template.",
	} {
		_, err := Read(parsed(t, strings.Split(text, `"spec"`)[0]+changed))
		require.ErrorContains(t, err, want, changed)
	}
	for state, want := range map[string]string{
		"{":                   "annotation autoscaling.sigma-scheduler.io/concurrency: ",
		`{"phase": "Lost"}`:   `phase "Lost"`,
		`{"phase": "Canary"}`: "phase Canary without stable and base",
	} {
		_, err := ReadState(state)
		require.ErrorContains(t, err, want)
	}
}
