package collect

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	metrics "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/target"
)

var now = time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)

func clock() time.Time { return now }

func amountList(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func owner(kind string, uid types.UID) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: string(uid), UID: uid, Controller: &yes}}
}

func newPod(name string, by []metav1.OwnerReference, change ...func(*corev1.Pod)) *corev1.Pod {
	since := metav1.NewTime(now.Add(-time.Hour))
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": "web"}, OwnerReferences: by},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "web", Resources: corev1.ResourceRequirements{Requests: amountList("500m", "512Mi")}},
		}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, StartTime: &since,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: since}},
		},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func object(change ...func(*v1alpha1.MultidimPodAutoscaler)) *v1alpha1.MultidimPodAutoscaler {
	o := &v1alpha1.MultidimPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: v1alpha1.MultidimPodAutoscalerSpec{
			ScaleTargetRef: v1alpha1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			Metrics:        v1alpha1.Metrics{Usage: v1alpha1.UsageMetricsAPI},
			Constraints:    v1alpha1.Constraints{Containers: []v1alpha1.ContainerConstraints{{Name: "web"}}},
		},
	}
	for _, f := range change {
		f(o)
	}
	return o
}

type indexer struct{ *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, o client.Object, field string, f client.IndexerFunc) error {
	i.WithIndex(o, field, f)
	return nil
}

// metricsAPI is a metrics API for tests.
type metricsAPI struct {
	metrics.PodMetricsesGetter
	metrics.PodMetricsInterface
	list func(ctx context.Context, o metav1.ListOptions) (*metricsv1beta1.PodMetricsList, error)
}

func (a metricsAPI) PodMetricses(string) metrics.PodMetricsInterface { return a }
func (a metricsAPI) List(ctx context.Context, o metav1.ListOptions) (*metricsv1beta1.PodMetricsList, error) {
	return a.list(ctx, o)
}

func podMetrics(pod, cpu, memory string, at time.Time) metricsv1beta1.PodMetrics {
	return metricsv1beta1.PodMetrics{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: pod}, Timestamp: metav1.NewTime(at), Window: metav1.Duration{Duration: 15 * time.Second},
		Containers: []metricsv1beta1.ContainerMetrics{{Name: "web", Usage: amountList(cpu, memory)}, {Name: "proxy", Usage: amountList("1", "1Gi")}},
	}
}

func newCollector(t *testing.T, a metricsAPI, objects ...client.Object) *Collector {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
	require.NoError(t, target.Index(t.Context(), indexer{b}))
	return &Collector{Client: b.Build(), Metrics: a, Prometheus: allow(t, 4, clock), Timeout: 200 * time.Millisecond}
}

// cluster has a Deployment with two sets of pods, and pods of others.
func cluster() []client.Object {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	set := func(uid types.UID, by types.UID) *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: string(uid), UID: uid, OwnerReferences: owner("Deployment", by)}}
	}
	return []client.Object{
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "d"}, Spec: appsv1.DeploymentSpec{Selector: selector}},
		&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "s"}, Spec: appsv1.StatefulSetSpec{Selector: selector}},
		set("old", "d"), set("new", "d"), set("foreign", "another"),
		newPod("web-b", owner("ReplicaSet", "new")), newPod("web-a", owner("ReplicaSet", "old")),
		newPod("db-0", owner("StatefulSet", "s")), newPod("other", owner("ReplicaSet", "foreign")), newPod("alone", nil),
	}
}

func TestPodOf(t *testing.T) {
	long, lately := now.Add(-time.Hour), now.Add(-time.Minute)
	always := corev1.ContainerRestartPolicyAlways
	cond := func(kind corev1.PodConditionType, reason string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
				Type: kind, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.NewTime(lately),
			})
		}
	}
	web := mpa.Container{Name: "web", Request: mpa.Resources{CPU: 500, Memory: 512 << 20}}
	plain := mpa.Pod{Name: "p", Phase: mpa.Running, Started: long, Ready: true, ReadySince: long, Containers: []mpa.Container{web}}
	for _, test := range []struct {
		name   string
		change func(*corev1.Pod)
		listed []string
		want   func(*mpa.Pod)
	}{
		{name: "plain", change: func(*corev1.Pod) {}, want: func(*mpa.Pod) {}},
		{name: "deferred", change: cond(corev1.PodResizePending, "Deferred"), want: func(p *mpa.Pod) { p.Resize, p.ResizeSince = mpa.Deferred, lately }},
		{name: "infeasible", change: cond(corev1.PodResizePending, "Infeasible"), want: func(p *mpa.Pod) { p.Resize, p.ResizeSince = mpa.Infeasible, lately }},
		{name: "in progress", change: cond(corev1.PodResizeInProgress, ""), want: func(p *mpa.Pod) { p.Resize, p.ResizeSince = mpa.InProgress, lately }},
		{
			name: "deferred while in progress", listed: []string{"web"},
			change: func(p *corev1.Pod) {
				cond(corev1.PodResizeInProgress, "")(p)
				cond(corev1.PodResizePending, "Deferred")(p)
			},
			want: func(p *mpa.Pod) { p.Resize, p.ResizeSince = mpa.Deferred, lately },
		},
		{
			name: "a resize that is over",
			change: func(p *corev1.Pod) {
				cond(corev1.PodResizePending, "Deferred")(p)
				p.Status.Conditions[1].Status = corev1.ConditionFalse
			},
			want: func(*mpa.Pod) {},
		},
		{
			name: "what is in force, and a kill",
			change: func(p *corev1.Pod) {
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{
					Name: "web", Resources: &corev1.ResourceRequirements{Requests: amountList("250m", "256Mi")},
					LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", FinishedAt: metav1.NewTime(lately)}},
				}}
			},
			want: func(p *mpa.Pod) {
				p.Containers[0].Actual, p.Containers[0].Killed = mpa.Resources{CPU: 250, Memory: 256 << 20}, lately
			},
		},
		{
			name:   "a limit of memory",
			change: func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = amountList("1", "2Gi") },
			want:   func(p *mpa.Pod) { p.Containers[0].MemoryLimit = 2 << 30 },
		},
		{
			name: "the later of two kills, and an end that is none",
			change: func(p *corev1.Pod) {
				at := func(reason string, t time.Time) corev1.ContainerState {
					return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, FinishedAt: metav1.NewTime(t)}}
				}
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", State: at("OOMKilled", lately), LastTerminationState: at("OOMKilled", long)}}
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "proxy"})
				p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: "proxy", State: at("Error", lately)})
			},
			want: func(p *mpa.Pod) {
				p.Containers[0].Killed = lately
				p.Containers = append(p.Containers, mpa.Container{Name: "proxy"})
			},
		},
		{
			name: "only what is listed", listed: []string{"web"},
			change: func(p *corev1.Pod) {
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "proxy"})
				p.Spec.InitContainers = []corev1.Container{{Name: "init"}, {Name: "sidecar", RestartPolicy: &always}}
			},
			want: func(*mpa.Pod) {},
		},
		{
			name: "a listed sidecar", listed: []string{"web", "sidecar", "init"},
			change: func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{{Name: "init"}, {Name: "sidecar", RestartPolicy: &always}}
				p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "sidecar", Resources: &corev1.ResourceRequirements{Requests: amountList("1", "1Gi")}}}
			},
			want: func(p *mpa.Pod) {
				p.Containers = []mpa.Container{{Name: "sidecar", Actual: mpa.Resources{CPU: 1000, Memory: 1 << 30}}, web}
			},
		},
		{
			name: "pending and deleted",
			change: func(p *corev1.Pod) {
				p.Status = corev1.PodStatus{Phase: corev1.PodPending}
				p.DeletionTimestamp = &metav1.Time{Time: now}
			},
			want: func(p *mpa.Pod) {
				*p = mpa.Pod{Name: "p", Phase: mpa.Pending, Deleting: true, Containers: []mpa.Container{web}}
			},
		},
		{name: "ended", change: func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, want: func(p *mpa.Pod) { p.Phase = mpa.Ended }},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := plain
			want.Containers = []mpa.Container{web}
			test.want(&want)
			assert.Equal(t, want, podOf(newPod("p", nil, test.change), test.listed))
		})
	}
}

func TestUsageFromTheMetricsAPI(t *testing.T) {
	fresh := now.Add(-10 * time.Second)
	answer := func(items ...metricsv1beta1.PodMetrics) func(context.Context, metav1.ListOptions) (*metricsv1beta1.PodMetricsList, error) {
		return func(context.Context, metav1.ListOptions) (*metricsv1beta1.PodMetricsList, error) {
			return &metricsv1beta1.PodMetricsList{Items: items}, nil
		}
	}
	fail := func(err error) func(context.Context, metav1.ListOptions) (*metricsv1beta1.PodMetricsList, error) {
		return func(context.Context, metav1.ListOptions) (*metricsv1beta1.PodMetricsList, error) { return nil, err }
	}
	for _, test := range []struct {
		name            string
		list            func(context.Context, metav1.ListOptions) (*metricsv1beta1.PodMetricsList, error)
		known           int // pods with usage, whatever its age
		reason, message string
	}{
		{name: "all", list: answer(podMetrics("web-a", "100m", "1Mi", fresh), podMetrics("web-b", "100m", "1Mi", fresh)), known: 2},
		{name: "one of two", list: answer(podMetrics("web-a", "100m", "1Mi", fresh)), known: 1, reason: "PodsMissing", message: "fresh usage of 1 of 2 running pods; not of web-b"},
		{name: "none", list: answer(), reason: "UsageMissing", message: "the metrics API has no usage of the 2 running pods of Deployment web"},
		{
			name: "old", list: answer(podMetrics("web-a", "100m", "1Mi", now.Add(-10*time.Minute))), known: 1,
			reason: "UsageStale", message: "the newest usage that the metrics API has is 10m0s old; it counts for 2m0s",
		},
		{
			name: "ahead", list: answer(podMetrics("web-a", "100m", "1Mi", now.Add(time.Hour))), known: 1,
			reason: "UsageFromTheFuture", message: "1h0m0s ahead of this clock",
		},
		{name: "of an earlier pod of that name", list: answer(podMetrics("web-a", "100m", "1Mi", now.Add(-2*time.Hour))), reason: "UsageMissing", message: "of no running pod with all its containers"},
		{
			name: "of another container", reason: "UsageMissing",
			list: func(context.Context, metav1.ListOptions) (*metricsv1beta1.PodMetricsList, error) {
				m := podMetrics("web-a", "1", "1Gi", fresh)
				m.Containers = m.Containers[1:]
				return &metricsv1beta1.PodMetricsList{Items: []metricsv1beta1.PodMetrics{m}}, nil
			},
		},
		{name: "negative", list: answer(podMetrics("web-a", "-100m", "1Mi", fresh)), reason: "Negative", message: "container web of pod web-a uses -100m cpu"},
		{name: "not installed", list: fail(apierrors.NewNotFound(metricsv1beta1.Resource("pods"), "")), reason: "MetricsAPIMissing", message: "is metrics-server installed?"},
		{name: "forbidden", list: fail(apierrors.NewForbidden(metricsv1beta1.Resource("pods"), "", errors.New("no"))), reason: "MetricsAPIForbidden", message: "forbidden: no"},
		{name: "unavailable", list: fail(apierrors.NewServiceUnavailable("no endpoints")), reason: "MetricsAPIFailed", message: "no endpoints"},
		{
			name: "slow", reason: "MetricsAPITimeout", message: "did not answer within 200ms",
			list: func(ctx context.Context, _ metav1.ListOptions) (*metricsv1beta1.PodMetricsList, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCollector(t, metricsAPI{list: test.list}, cluster()...)
			ob, problems := observe(t, c, object())
			known := 0
			for _, p := range ob.Pods {
				require.Len(t, p.Containers, 1)
				if !p.Containers[0].Usage.Time.IsZero() {
					known++
					assert.Equal(t, mpa.Resources{CPU: 100, Memory: 1 << 20}, p.Containers[0].Usage.Resources)
				}
			}
			assert.Equal(t, test.known, known)
			requireProblem(t, problems, Usage, test.reason, test.message)
		})
	}
}

func observe(t *testing.T, c *Collector, o *v1alpha1.MultidimPodAutoscaler) (*mpa.Observation, []Problem) {
	t.Helper()
	if !strings.HasSuffix(t.Name(), "/slow") { // an answer comes, however slow the machine is
		c.Timeout = time.Minute
	}
	w, err := target.Find(t.Context(), c.Client, "shop", o.Spec.ScaleTargetRef)
	require.NoError(t, err)
	ob, problems, err := c.Observe(t.Context(), o, w, now)
	require.NoError(t, err)
	return ob, problems
}

func requireProblem(t *testing.T, problems []Problem, source, reason, message string) {
	t.Helper()
	if reason == "" {
		require.Empty(t, problems)
		return
	}
	require.Len(t, problems, 1)
	assert.Equal(t, source, problems[0].Source)
	assert.Equal(t, reason, problems[0].Reason, problems[0].Message)
	assert.Contains(t, problems[0].Message, message)
}
