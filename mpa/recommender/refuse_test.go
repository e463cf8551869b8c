package recommender

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// An object is refused while something is wrong with it, and decided for again afterwards.
func TestRefusals(t *testing.T) {
	minute := start.Add(-time.Minute)
	other := func(at time.Time, name string) *v1alpha1.MultidimPodAutoscaler {
		o := web()
		o.Name, o.UID, o.CreationTimestamp = name, types.UID(name), metav1.NewTime(at)
		o.Spec.Recommender.Name = "another"
		return o
	}
	quiet := func(o *v1alpha1.MultidimPodAutoscaler) *v1alpha1.MultidimPodAutoscaler {
		o.Spec.Mode = v1alpha1.ModeOff
		return o
	}
	hpa := func(name string) *autoscalingv2.HorizontalPodAutoscaler {
		h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "h"}}
		h.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name}
		return h
	}
	vpa := func(mode string) func(*world) {
		return func(w *world) {
			w.vpas = vpaList{{Object: map[string]any{
				"metadata": map[string]any{"name": "v"},
				"spec": map[string]any{
					"targetRef":    map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
					"updatePolicy": map[string]any{"updateMode": mode},
				},
			}}}
		}
	}
	create := func(o client.Object) func(*world) {
		return func(w *world) { require.NoError(w.t, w.Create(w.t.Context(), o)) }
	}
	remove := func(o client.Object) func(*world) {
		return func(w *world) { require.NoError(w.t, w.Delete(w.t.Context(), o)) }
	}
	replicas := func(n int32) func(*world) {
		return func(w *world) {
			d := &appsv1.Deployment{}
			require.NoError(w.t, w.Get(w.t.Context(), key, d))
			d.Spec.Replicas = &n
			require.NoError(w.t, w.Update(w.t.Context(), d))
		}
	}
	edit := func(f func(*v1alpha1.MultidimPodAutoscaler)) func(*world) {
		return func(w *world) {
			o := w.read()
			f(o)
			o.Generation++
			require.NoError(w.t, w.Update(w.t.Context(), o))
		}
	}
	algorithm := func(name string) func(*world) {
		return edit(func(o *v1alpha1.MultidimPodAutoscaler) { o.Spec.Recommender.Algorithm = name })
	}
	container := func(name string) func(*world) {
		return edit(func(o *v1alpha1.MultidimPodAutoscaler) { o.Spec.Constraints.Containers[0].Name = name })
	}
	memory := resource.MustParse("1Ki")
	for _, test := range []struct {
		name                  string
		wrong, right          func(*world)
		reason, message, kept string
	}{
		{name: "no target", wrong: remove(deployment(2)), right: create(deployment(2)), reason: "TargetMissing", message: "there is no Deployment web"},
		{name: "switched off", wrong: replicas(0), right: replicas(2), reason: "SwitchedOff", message: "has 0 replicas"},
		{name: "an older object", wrong: create(other(minute, "older")), right: remove(other(minute, "older")), reason: "OtherMPA", message: "MultidimPodAutoscaler older"},
		{name: "one as old", wrong: create(other(start, "a")), right: remove(other(start, "a")), reason: "OtherMPA", message: "MultidimPodAutoscaler a"},
		{name: "a younger object", wrong: create(other(start.Add(time.Minute), "younger")), right: func(*world) {}},
		{name: "an older object that changes nothing", wrong: create(quiet(other(minute, "older"))), right: func(*world) {}},
		{name: "an HPA", wrong: create(hpa("web")), right: remove(hpa("web")), reason: "HorizontalPodAutoscaler", message: "HorizontalPodAutoscaler h has the same target"},
		{name: "an HPA of another", wrong: create(hpa("db")), right: func(*world) {}},
		{name: "a VPA", wrong: vpa("Auto"), right: func(w *world) { w.vpas = vpaList{} }, reason: "VerticalPodAutoscaler", message: "VerticalPodAutoscaler v has the same target"},
		{name: "a VPA that recommends only", wrong: vpa("Off"), right: func(*world) {}},
		{
			name: "VPAs that cannot be listed", wrong: func(w *world) { w.vpas = noList{} }, right: func(w *world) { w.vpas = vpaList{} },
			reason: "VerticalPodAutoscalersUnknown", message: "it is unknown whether a VerticalPodAutoscaler has the same target: forbidden",
		},
		{name: "unknown algorithm", wrong: algorithm("magic"), right: algorithm("hpa+vpa"), reason: "AlgorithmUnknown", message: `unknown agent "magic": there are static, hpa`},
		{
			name:   "unknown fallback",
			wrong:  edit(func(o *v1alpha1.MultidimPodAutoscaler) { o.Spec.Fallback = &v1alpha1.Fallback{Algorithm: "magic"} }),
			right:  edit(func(o *v1alpha1.MultidimPodAutoscaler) { o.Spec.Fallback = nil }),
			reason: "AlgorithmUnknown", message: `fallback: unknown agent "magic"`,
		},
		{name: "no such container", wrong: container("wbe"), right: container("web"), reason: "ContainerMissing", message: `has no container "wbe"`},
		{
			name: "bounds that contradict each other", reason: "SpecInvalid", message: "max is below its min",
			wrong: edit(func(o *v1alpha1.MultidimPodAutoscaler) {
				o.Spec.Constraints.Containers[0].MinAllowed.Memory = &[]resource.Quantity{resource.MustParse("64Mi")}[0]
				o.Spec.Constraints.Containers[0].MaxAllowed.Memory = &memory
			}),
			right: edit(func(o *v1alpha1.MultidimPodAutoscaler) {
				o.Spec.Constraints.Containers[0].MaxAllowed.Memory = nil
			}),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			test.wrong(w)
			for range 2 {
				o := w.step(15 * time.Second)
				active := condition(&o.Status, v1alpha1.ConditionActive)
				if test.reason == "" {
					require.Equal(t, metav1.ConditionTrue, active.Status, active.Message)
					continue
				}
				require.Equal(t, v1alpha1.PhaseRefused, o.Status.Phase)
				assert.Equal(t, metav1.ConditionFalse, active.Status)
				assert.Equal(t, test.reason, active.Reason)
				assert.Equal(t, test.reason, o.Status.Summary)
				assert.Contains(t, active.Message, test.message)
				assert.Nil(t, o.Status.Recommendation)
			}
			test.right(w)
			o := w.step(15 * time.Second)
			assert.Equal(t, "OK", o.Status.Summary)
			require.NotNil(t, o.Status.Recommendation)
			assert.Equal(t, int64(1), o.Status.Recommendation.ID)
			if test.reason != "" {
				assert.Contains(t, <-w.events.Events, "Warning "+test.reason)
				assert.Contains(t, <-w.events.Events, "Normal Resumed")
			}
			assert.Contains(t, <-w.events.Events, "Normal Recommended 4 replicas")
			assert.Empty(t, w.events.Events, "each is reported once")
		})
	}
}

type vpaList []unstructured.Unstructured

func (l vpaList) List(context.Context, string) ([]unstructured.Unstructured, error) { return l, nil }

type noList struct{}

func (noList) List(context.Context, string) ([]unstructured.Unstructured, error) {
	return nil, errors.New("forbidden")
}

// TestIgnoredNamespaces: nothing is decided, and nothing written, in the namespaces of the
// cluster's components and of the autoscaler.
func TestIgnoredNamespaces(t *testing.T) {
	w := newWorld(t)
	w.options.Namespace = "shop"
	before := w.read()
	assert.Equal(t, before, w.step(time.Minute))
	system := web()
	system.Namespace = "kube-system"
	require.NoError(t, w.Create(t.Context(), system))
	_, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(system)})
	require.NoError(t, err)
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(system), system))
	assert.Zero(t, system.Status)
	assert.Empty(t, w.objects)
}

func TestObjectsOfOthersAreLeftAlone(t *testing.T) {
	w := newWorld(t, func(o *v1alpha1.MultidimPodAutoscaler) { o.Spec.Recommender.Name = "another" })
	before := w.read()
	assert.Equal(t, before, w.step(time.Minute))
	assert.Empty(t, w.objects)
}
