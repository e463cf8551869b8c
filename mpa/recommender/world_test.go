package recommender

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/collect"
	"github.com/sigma-scheduler/sigma/mpa/history"
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
	patch  func(next func() error) error // wraps the recommender's writes
}

// usage is a metrics API.
type usage struct {
	metricsclient.PodMetricsesGetter
	metricsclient.PodMetricsInterface
	pods        int
	container   string // empty = web
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
			Containers: []metricsv1beta1.ContainerMetrics{{Name: cmp.Or(u.container, "web"), Usage: amounts(u.cpu, u.memory)}},
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
	b := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.MultidimPodAutoscaler{}, &v1alpha1.ScalingPolicy{}).
		WithObjects(deployment(2), replicaSet(), pod(0), pod(1)).
		WithInterceptorFuncs(interceptor.Funcs{SubResourceApply: func(ctx context.Context, c client.Client, _ string, a runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			return w.patch(func() error { return c.Status().Apply(ctx, a, opts...) })
		}})
	require.NoError(t, target.Index(t.Context(), indexer{b}))
	c := b.Build()
	prometheus, err := collect.NewPrometheus(nil, 2, w.clock.Now)
	require.NoError(t, err)
	w.reconciler = &reconciler{
		Client: c, live: c, options: defaults(), clock: w.clock, events: w.events,
		vpas:      vpaList{},
		history:   &history.Keeper{Client: c, Prometheus: prometheus, Clock: w.clock, Counts: func(*v1alpha1.MultidimPodAutoscaler) bool { return true }},
		collector: &collect.Collector{Client: c, Metrics: w.usage, Prometheus: prometheus, Timeout: time.Second},
		objects:   map[types.NamespacedName]*object{}, of: map[string]int{}, full: map[string]time.Time{}, made: map[string]time.Time{},
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

// step lets time pass until the object is due or longer, then measures and decides.
func (w *world) step(d time.Duration) *v1alpha1.MultidimPodAutoscaler {
	w.t.Helper()
	w.clock.Step(d)
	if s := w.objects[key]; s != nil && s.slot.next.After(w.clock.Now()) {
		w.clock.SetTime(s.slot.next)
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
		if s := w.objects[key]; s == nil || s.journaled.session != nil || s.written.refused != "" {
			break
		}
		w.clock.Step(result.RequeueAfter) // after a restart it waits for its slot
	}
	return w.read()
}

func (w *world) read() *v1alpha1.MultidimPodAutoscaler {
	w.t.Helper()
	o := &v1alpha1.MultidimPodAutoscaler{}
	require.NoError(w.t, w.live.Get(w.t.Context(), key, o))
	return o
}

// restart replaces the process: the new one knows what is written and nothing else.
func (w *world) restart() {
	for _, s := range w.objects {
		s.journaled.close(w.t.Context())
	}
	w.objects = map[types.NamespacedName]*object{}
}
