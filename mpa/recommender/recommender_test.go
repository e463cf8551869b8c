package recommender

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/collect"
	"github.com/sigma-scheduler/sigma/mpa/journal"
	"github.com/sigma-scheduler/sigma/mpa/target"
)

var start = time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)

// A world is a recommender and what it sees.
type world struct {
	*reconciler
	t      *testing.T
	clock  *testclock.FakeClock
	events *record.FakeRecorder
	usage  *usage
	patch  func(next func() error) error // stands between recommender and API server
}

// usage is a metrics API.
type usage struct {
	metricsclient.PodMetricsesGetter
	metricsclient.PodMetricsInterface
	pods        int
	cpu, memory string
	at          time.Time
	err         error
}

func (u *usage) PodMetricses(string) metricsclient.PodMetricsInterface { return u }

func (u *usage) List(context.Context, metav1.ListOptions) (*metricsv1beta1.PodMetricsList, error) {
	list := &metricsv1beta1.PodMetricsList{}
	for i := range u.pods {
		list.Items = append(list.Items, metricsv1beta1.PodMetrics{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("web-%d", i)},
			Timestamp:  metav1.NewTime(u.at), Window: metav1.Duration{Duration: 15 * time.Second},
			Containers: []metricsv1beta1.ContainerMetrics{{Name: "web", Usage: amounts(u.cpu, u.memory)}},
		})
	}
	return list, u.err
}

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// defaults are the options of a program without flags.
func defaults() (o Options) {
	o.AddFlags(pflag.NewFlagSet("", pflag.PanicOnError))
	return o
}

// newWorld has a Deployment web of two pods, which use all their cpu, and an object
// that sizes it.
func newWorld(t *testing.T, change ...func(*v1alpha1.MultidimPodAutoscaler)) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	w := &world{
		t: t, clock: testclock.NewFakeClock(start), events: record.NewFakeRecorder(100),
		usage: &usage{pods: 2, cpu: "480m", memory: "300Mi", at: start},
		patch: func(next func() error) error { return next() },
	}
	b := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.MultidimPodAutoscaler{}).
		WithObjects(deployment(2), replicaSet(), pod(0), pod(1)).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return w.patch(func() error { return c.Status().Patch(ctx, o, p, opts...) })
		}})
	require.NoError(t, target.Index(t.Context(), indexer{b}))
	c := b.Build()
	w.reconciler = &reconciler{
		Client: c, live: c, options: defaults(), clock: w.clock, events: w.events,
		vpas:      vpaList{},
		collector: &collect.Collector{Client: c, Metrics: w.usage, Prometheus: collect.NewPrometheus(2, w.clock.Now), Timeout: time.Second},
		objects:   map[types.NamespacedName]*object{},
	}
	o := web()
	for _, f := range change {
		f(o)
	}
	require.NoError(t, c.Create(t.Context(), o))
	return w
}

type indexer struct{ *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, o client.Object, field string, f client.IndexerFunc) error {
	i.WithIndex(o, field, f)
	return nil
}

func web() *v1alpha1.MultidimPodAutoscaler {
	return &v1alpha1.MultidimPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "mpa", Generation: 1, CreationTimestamp: metav1.NewTime(start)},
		Spec: v1alpha1.MultidimPodAutoscalerSpec{
			ScaleTargetRef: v1alpha1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			Mode:           v1alpha1.ModeInPlaceOrRecreate,
			Metrics:        v1alpha1.Metrics{Usage: v1alpha1.UsageMetricsAPI},
			Recommender:    v1alpha1.Recommender{Name: "default", Algorithm: "hpa+vpa"},
			Constraints: v1alpha1.Constraints{
				Replicas: v1alpha1.ReplicaRange{Min: 1, Max: 10},
				Containers: []v1alpha1.ContainerConstraints{{
					Name: "web", Controlled: []corev1.ResourceName{"cpu", "memory"},
				}},
			},
		},
	}
}

func deployment(replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "deployment"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web"}}}},
		},
	}
}

func ownedBy(kind, name string, uid types.UID) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: uid, Controller: &yes}}
}

func replicaSet() *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web-1", UID: "set", OwnerReferences: ownedBy("Deployment", "web", "deployment"),
	}}
}

func pod(i int) *corev1.Pod {
	long := metav1.NewTime(start.Add(-time.Hour))
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: fmt.Sprintf("web-%d", i), Labels: map[string]string{"app": "web"}, OwnerReferences: ownedBy("ReplicaSet", "web-1", "set"),
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Resources: corev1.ResourceRequirements{Requests: amounts("500m", "512Mi")}}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, StartTime: &long,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: long}},
		},
	}
}

// step lets time pass, at least until the object is due, measures and decides.
func (w *world) step(d time.Duration) *v1alpha1.MultidimPodAutoscaler {
	w.t.Helper()
	w.clock.Step(d)
	if s := w.objects[key]; s != nil && s.next.After(w.clock.Now()) {
		w.clock.SetTime(s.next)
	}
	w.usage.at = w.clock.Now()
	return w.reconcile()
}

var key = client.ObjectKey{Namespace: "shop", Name: "web"}

func (w *world) reconcile() *v1alpha1.MultidimPodAutoscaler {
	w.t.Helper()
	for range 3 {
		result, err := w.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: key})
		require.NoError(w.t, err)
		if s := w.objects[key]; s == nil || s.session != nil || s.refused != "" {
			break
		}
		w.clock.Step(result.RequeueAfter) // after a restart it waits for its turn
	}
	return w.read()
}

func TestRecommends(t *testing.T) {
	w := newWorld(t)
	o := w.step(0)
	require.NotNil(t, o.Status.Recommendation, "%+v", o.Status)
	assert.Equal(t, int64(1), o.Status.Recommendation.ID)
	assert.Equal(t, v1alpha1.ChangeReplicas, o.Status.Recommendation.Change)
	assert.Equal(t, int32(4), o.Status.Recommendation.Replicas) // 480 of 500 m at 50 %: ⌈2 · 1.92⌉
	assert.Equal(t, "500m", o.Status.Recommendation.Containers[0].CPU.String())
	assert.Equal(t, "512Mi", o.Status.Recommendation.Containers[0].Memory.String())
	assert.Equal(t, v1alpha1.PhaseScaling, o.Status.Phase)
	assert.Equal(t, "OK", o.Status.Summary)
	assert.Equal(t, int32(2), o.Status.Observed.Ready)
	assert.Equal(t, "Scale", o.Status.Decision.Action)
	assert.Len(t, o.Status.Memory.ReplicaChanges, 1)
	assert.True(t, o.Status.Memory.Asked)
}

// An object is refused while something is wrong with it, and goes on when that is over.
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
			reason: "VerticalPodAutoscalersUnknown", message: "cannot be told: forbidden",
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
			assert.Empty(t, w.events.Events, "each is said once")
		})
	}
}

type vpaList []unstructured.Unstructured

func (l vpaList) List(context.Context, string) ([]unstructured.Unstructured, error) { return l, nil }

type noList struct{}

func (noList) List(context.Context, string) ([]unstructured.Unstructured, error) {
	return nil, errors.New("forbidden")
}

func (w *world) read() *v1alpha1.MultidimPodAutoscaler {
	w.t.Helper()
	o := &v1alpha1.MultidimPodAutoscaler{}
	require.NoError(w.t, w.live.Get(w.t.Context(), key, o))
	return o
}

// restart is another process: it knows what is written and nothing else.
func (w *world) restart() {
	for _, s := range w.objects {
		s.close(w.t.Context())
	}
	w.objects = map[types.NamespacedName]*object{}
}

func TestObjectsOfOthersAreLeftAlone(t *testing.T) {
	w := newWorld(t, func(o *v1alpha1.MultidimPodAutoscaler) { o.Spec.Recommender.Name = "another" })
	before := w.read()
	assert.Equal(t, before, w.step(time.Minute))
	assert.Empty(t, w.objects)
}

func TestOffRecommendsOnly(t *testing.T) {
	w := newWorld(t, func(o *v1alpha1.MultidimPodAutoscaler) { o.Spec.Mode = v1alpha1.ModeOff })
	o := w.step(0)
	assert.Equal(t, v1alpha1.PhaseRecommending, o.Status.Phase)
	assert.Equal(t, "hpa+vpa recommends; in mode Off nothing is changed.", condition(&o.Status, v1alpha1.ConditionActive).Message)
	assert.Equal(t, int32(4), o.Status.Decision.Replicas)
	assert.Nil(t, o.Status.Recommendation)
	assert.Empty(t, o.Status.Memory.ReplicaChanges)
	assert.Empty(t, w.events.Events)

	// Also beside one that acts.
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "h"}}
	h.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	require.NoError(t, w.Create(t.Context(), h))
	assert.Equal(t, v1alpha1.PhaseRecommending, w.step(15*time.Second).Status.Phase)
	o = w.read()
	o.Spec.Mode = v1alpha1.ModeInPlace
	o.Generation++
	require.NoError(t, w.Update(t.Context(), o))
	o = w.step(15 * time.Second)
	assert.Equal(t, "HorizontalPodAutoscaler", o.Status.Summary)

	// What the updater said of it last is of a mode that acted.
	o.Spec.Mode = v1alpha1.ModeOff
	o.Generation++
	require.NoError(t, w.Update(t.Context(), o))
	o.Status.Conditions = append(o.Status.Conditions,
		metav1.Condition{Type: v1alpha1.ConditionAble, Status: metav1.ConditionFalse, Reason: "OtherAutoscaler"},
		metav1.Condition{Type: v1alpha1.ConditionResize, Status: metav1.ConditionTrue, Reason: "Infeasible"})
	require.NoError(t, w.Status().Update(t.Context(), o))
	o = w.step(15 * time.Second)
	assert.Equal(t, v1alpha1.PhaseRecommending, o.Status.Phase)
	assert.Equal(t, "OK", o.Status.Summary)
}

func TestNothingOnMissingUsage(t *testing.T) {
	w := newWorld(t)
	w.usage.err = errors.New("down")
	for range 5 {
		o := w.step(15 * time.Second)
		assert.Nil(t, o.Status.Recommendation)
		assert.Equal(t, v1alpha1.PhaseStarting, o.Status.Phase)
		assert.Equal(t, "MetricsAPIFailed", o.Status.Summary)
		assert.Equal(t, "Hold", o.Status.Decision.Action)
	}
	w.usage.err = nil
	require.NotNil(t, w.step(15*time.Second).Status.Recommendation)
	w.usage.err = errors.New("down again")
	o := w.step(15 * time.Second)
	assert.Equal(t, v1alpha1.PhaseHolding, o.Status.Phase)
	assert.Equal(t, int64(1), o.Status.Recommendation.ID, "it stays")
}

// After a time in which nobody looked nothing shrinks, as after one without usage: Prometheus
// may have been away with the recommender.
func TestNobodyLooked(t *testing.T) {
	idle := func(w *world) *v1alpha1.MultidimPodAutoscaler {
		w.usage.cpu = "5m"
		return w.step(15 * time.Second)
	}
	switchOff := func(w *world, replicas int32) {
		d := deployment(replicas)
		require.NoError(t, w.Update(t.Context(), d))
	}
	for _, test := range []struct {
		name string
		away func(w *world)
		held bool
	}{
		{"a short restart", func(w *world) { w.restart(); w.clock.Step(time.Minute) }, false},
		{"a long one", func(w *world) { w.restart(); w.clock.Step(6 * time.Minute) }, true},
		{"for longer than limits count", func(w *world) { w.restart(); w.clock.Step(2 * time.Hour) }, true},
		{"switched off", func(w *world) {
			switchOff(w, 0)
			w.step(15 * time.Second)
			w.clock.Step(6 * time.Minute)
			switchOff(w, 2)
		}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, func(o *v1alpha1.MultidimPodAutoscaler) { o.Spec.Recommender.Algorithm = "less" })
			w.options.JournalDir = t.TempDir()
			w.usage.cpu = "300m"
			require.Nil(t, w.step(0).Status.Recommendation)
			require.Nil(t, w.step(15*time.Second).Status.Recommendation)
			test.away(w)
			shrunk := 0
			for range 16 {
				if idle(w).Status.Recommendation != nil {
					shrunk++
				}
			}
			assert.Equal(t, test.held, shrunk == 0)
			for range 8 {
				idle(w)
			}
			assert.NotNil(t, w.read().Status.Recommendation)
			w.restart()
			v, err := journal.ReplayFile(filepath.Join(w.options.JournalDir, "shop", "web.mpa.jsonl"), nil)
			require.NoError(t, err)
			assert.Nil(t, v.First)
		})
	}
}

// What was recommended before a time in mode Off is of then: neither webhook nor updater gets
// it once the mode acts again. Its id is not used again.
func TestOffForgetsTheLast(t *testing.T) {
	w := newWorld(t, restless)
	turn := func(mode v1alpha1.Mode) *v1alpha1.MultidimPodAutoscaler {
		o := w.read()
		o.Spec.Mode = mode
		o.Generation++
		require.NoError(t, w.Update(t.Context(), o))
		return w.reconcile()
	}
	require.Equal(t, int64(1), w.step(0).Status.Recommendation.ID)
	o := turn(v1alpha1.ModeOff)
	assert.Nil(t, o.Status.Recommendation)
	assert.Nil(t, w.step(15*time.Second).Status.Recommendation)
	w.usage.err = errors.New("down")
	assert.Nil(t, turn(v1alpha1.ModeInPlace).Status.Recommendation)
	w.usage.err = nil
	o = w.step(6 * time.Minute) // none waits for the first any longer
	require.NotNil(t, o.Status.Recommendation)
	assert.Equal(t, int64(2), o.Status.Recommendation.ID)
}

// more wants one more replica each time.
type more struct{}

func (more) Recommend(o *mpa.Observation) mpa.Recommendation {
	return mpa.Recommendation{Replicas: o.Replicas + 1, Source: "more", Reason: "never enough"}
}

// less wants as many as use what they ask for.
type less struct{ agents.Static }

func (less) Recommend(o *mpa.Observation) mpa.Recommendation {
	r := mpa.Recommendation{Replicas: o.Replicas, Source: "less", Reason: "wished"}
	if len(o.Pods) > 0 && o.Pods[0].Containers[0].Usage.CPU < 100 {
		r.Replicas = 1
	}
	return r
}

func init() {
	agents.Register(agents.Kind{Name: "more", Rule: func(mpa.Target) mpa.Agent { return more{} }})
	agents.Register(agents.Kind{Name: "less", Rule: func(mpa.Target) mpa.Agent { return less{} }})
}

func restless(o *v1alpha1.MultidimPodAutoscaler) {
	o.Spec.Recommender.Algorithm, o.Spec.Constraints.Replicas.Max = "more", 1000
}

// However writes fail, an id is given out once, its content does not change, and no more
// changes are made than the guards allow, over restarts too.
func TestIDsOverFailedWrites(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		t.Run(fmt.Sprintf("journal=%t", dir != ""), func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			w := newWorld(t, func(o *v1alpha1.MultidimPodAutoscaler) { restless(o) })
			w.options.JournalDir, w.options.JournalBytes = dir, 1<<30
			w.patch = func(next func() error) error {
				switch random.IntN(4) {
				case 0:
					return errors.New("lost before it arrived")
				case 1:
					_ = next()
					return errors.New("the answer was lost")
				default:
					return next()
				}
			}
			seen := map[int64]v1alpha1.Recommendation{}
			last := int64(0)
			for i := range 200 { // not quite an hour
				if random.IntN(20) == 0 {
					w.restart()
				}
				// The workload does what it is told.
				if r := w.read().Status.Recommendation; r != nil {
					d := &appsv1.Deployment{}
					require.NoError(t, w.Get(t.Context(), key, d))
					d.Spec.Replicas = &r.Replicas
					require.NoError(t, w.Update(t.Context(), d))
				}
				o := w.step(15 * time.Second)
				r := o.Status.Recommendation
				if r == nil {
					continue
				}
				if known, ok := seen[r.ID]; ok {
					require.Equal(t, known, *r, "step %d", i)
				}
				seen[r.ID] = *r
				require.GreaterOrEqual(t, r.ID, last)
				last = r.ID
			}
			assert.Greater(t, len(seen), 6)
			assert.LessOrEqual(t, len(seen), 12, "within an hour")
		})
	}
}

// Two recommenders by mistake: the limits are those of one.
func TestTwoRecommenders(t *testing.T) {
	w := newWorld(t, func(o *v1alpha1.MultidimPodAutoscaler) { restless(o) })
	both := []*reconciler{w.reconciler, {
		Client: w.Client, live: w.live, collector: w.collector, options: w.options, clock: w.clock, events: w.events, vpas: w.vpas,
		objects: map[types.NamespacedName]*object{},
	}}
	request := ctrl.Request{NamespacedName: key}
	seen := map[int64]v1alpha1.Recommendation{}
	for range 440 { // not quite an hour
		w.clock.Step(8 * time.Second)
		w.usage.at = w.clock.Now()
		if r := w.read().Status.Recommendation; r != nil {
			d := &appsv1.Deployment{}
			require.NoError(t, w.Get(t.Context(), key, d))
			d.Spec.Replicas = &r.Replicas
			require.NoError(t, w.Update(t.Context(), d))
		}
		for _, r := range both {
			_, err := r.Reconcile(t.Context(), request)
			require.NoError(t, err)
			if r := w.read().Status.Recommendation; r != nil {
				if known, ok := seen[r.ID]; ok {
					require.Equal(t, known, *r)
				}
				seen[r.ID] = *r
			}
		}
	}
	assert.Len(t, seen, 12)
}

// The status is written when it says something new, and once a minute.
func TestQuietStatus(t *testing.T) {
	writes := 0
	w := newWorld(t)
	w.usage.cpu = "250m" // as wanted
	w.patch = func(next func() error) error { writes++; return next() }
	for range 40 {
		w.usage.memory = fmt.Sprintf("%dMi", 300+writes%3)
		w.step(15 * time.Second)
	}
	assert.InDelta(t, 10, writes, 2)
	w.usage.err = errors.New("down")
	before := writes
	w.step(15 * time.Second)
	assert.Equal(t, before+1, writes)
}

// Another generation keeps what the guards remember; another object of that name does not.
func TestMemoryOverEdits(t *testing.T) {
	w := newWorld(t)
	require.NotNil(t, w.step(0).Status.Recommendation)
	o := w.read()
	o.Generation, o.Spec.Constraints.Replicas.Max = 2, 20
	require.NoError(t, w.Update(t.Context(), o))
	o = w.reconcile()
	assert.Equal(t, int64(2), o.Status.ObservedGeneration)
	assert.Len(t, o.Status.Memory.ReplicaChanges, 1)
	assert.Equal(t, int64(1), o.Status.Recommendation.ID)

	require.NoError(t, w.Delete(t.Context(), o))
	_, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(o)})
	require.NoError(t, err)
	assert.Empty(t, w.objects)
	again := web()
	again.UID = "another"
	require.NoError(t, w.Create(t.Context(), again))
	assert.Equal(t, int64(1), w.step(time.Minute).Status.Recommendation.ID)
}

// What a journal has is what is computed from it, with the outcomes.
func TestJournal(t *testing.T) {
	w := newWorld(t)
	w.options.JournalDir, w.options.JournalBytes = t.TempDir(), 1<<30
	o := w.step(0)
	require.NotNil(t, o.Status.Recommendation)
	o.Status.Actuation = &v1alpha1.Actuation{ID: 1, Outcome: v1alpha1.OutcomeApplied, Time: metav1.NewMicroTime(w.clock.Now())}
	require.NoError(t, w.Status().Update(t.Context(), o))
	for i := range 20 {
		if i == 10 {
			w.restart()
		}
		w.step(15 * time.Second)
	}
	w.restart()
	path := filepath.Join(w.options.JournalDir, "shop", "web.mpa.jsonl")
	v, err := journal.ReplayFile(path, nil)
	require.NoError(t, err)
	require.Nil(t, v.First)
	assert.GreaterOrEqual(t, v.Decisions, 20)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(string(text), `"kind":"outcome"`))
	assert.Equal(t, 1, strings.Count(string(text), `"result":"Applied"`))

	// A folder that cannot be written to holds, and says so.
	w.options.JournalDir = path
	o = w.step(15 * time.Second)
	assert.Equal(t, "JournalFailed", o.Status.Summary)
}

func TestSpread(t *testing.T) {
	r := &reconciler{options: Options{Interval: 15 * time.Second}}
	slots := map[int]int{}
	for i := range 1500 {
		o := &v1alpha1.MultidimPodAutoscaler{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint("object ", i))}}
		next := r.slot(o, start)
		require.GreaterOrEqual(t, next.Sub(start), r.options.Interval/2)
		require.Less(t, next.Sub(start), 3*r.options.Interval/2)
		require.Equal(t, next.Add(r.options.Interval), r.slot(o, next))
		slots[next.Second()%15]++
	}
	for second, n := range slots {
		assert.InDelta(t, 100, n, 50, "second %d", second)
	}
}

func TestOptions(t *testing.T) {
	good := defaults()
	require.NoError(t, good.Validate())
	for want, change := range map[string]func(*Options){
		"--recommender-name is empty":  func(o *Options) { o.Name = "" },
		"--interval 1ms":               func(o *Options) { o.Interval = time.Millisecond },
		"--workers 0":                  func(o *Options) { o.Workers = 0 },
		"--cool-down -1s":              func(o *Options) { o.CoolDown = -time.Second },
		"--downscale-stabilisation 0s": func(o *Options) { o.Stabilisation = 0 },
		"--journal-bytes 5":            func(o *Options) { o.JournalBytes = 5 },
	} {
		bad := good
		change(&bad)
		require.ErrorContains(t, bad.Validate(), want)
	}
}

// Whatever the guards remember goes through the status and back.
func TestMemoryGoesThroughTheStatus(t *testing.T) {
	at := func(minutes int) time.Time {
		return time.Date(2026, 3, 1, 12, minutes, 0, 0, time.UTC)
	}
	target := mpa.Target{Containers: []mpa.ContainerSpec{{Name: "app", CPU: true, Memory: true}}}
	memory := mpa.Memory{
		Time: at(30), Blind: at(29), ReplicaChanges: []time.Time{at(1), at(2)}, RequestChanges: []time.Time{at(3)},
		Asked: &mpa.Asked{Time: at(28), Action: mpa.Action{Replicas: 5}},
		Containers: []mpa.ContainerMemory{{
			Name: "app", Peaks: []mpa.Peak{{Time: at(4), Memory: 5 << 20}},
			Ceiling: mpa.Resources{CPU: 1500, Memory: 1 << 30}, CeilingTime: at(6),
		}},
	}
	for _, v := range []reflect.Value{reflect.ValueOf(memory), reflect.ValueOf(memory.Containers[0])} {
		for i := range v.NumField() {
			require.False(t, v.Field(i).IsZero(), "the test leaves out %s", v.Type().Field(i).Name)
		}
	}
	var o v1alpha1.MultidimPodAutoscaler
	o.Status.Memory = remembered(memory)
	o.Status.Recommendation = &v1alpha1.Recommendation{Time: micro(at(28)), Change: v1alpha1.ChangeReplicas, Replicas: 5}
	text, err := json.Marshal(&o)
	require.NoError(t, err)
	var back v1alpha1.MultidimPodAutoscaler
	require.NoError(t, json.Unmarshal(text, &back))
	assert.Equal(t, memory, memoryOf(&back, &target))
}
