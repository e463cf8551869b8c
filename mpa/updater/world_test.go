package updater

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sigma-scheduler/sigma/mpa/actuate"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/evict"
)

var start = time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)

var key = types.NamespacedName{Namespace: "shop", Name: "web"}

// A world is an updater, or several one after the other, and a cluster without controllers
// and kubelets: Deployment web has two pods.
type world struct {
	*updater
	t      *testing.T
	clock  *testclock.FakeClock
	api    client.WithWatch // for all but the updater
	theirs client.Client    // for the updater
	// around wraps each of the updater's calls that change something: status, scale,
	// resize, record (of an eviction), eviction, limit (of a pod).
	around  func(call string, next func() error) error
	changes []string // the calls that succeeded, but those to status
	// managers of the pods' limits, by pod
	managers map[string]metav1.ManagedFieldsEntry
}

func newWorld(t *testing.T, mode v1alpha1.Mode) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{ // few: the fake API server walks all of the scheme repeatedly
		corev1.AddToScheme, appsv1.AddToScheme, autoscalingv1.AddToScheme, autoscalingv2.AddToScheme, policyv1.AddToScheme, v1alpha1.AddToScheme,
	} {
		require.NoError(t, add(scheme))
	}
	w := &world{t: t, clock: testclock.NewFakeClock(start)}
	w.around = func(_ string, next func() error) error { return next() }
	do := func(call string, next func() error) error {
		return w.around(call, func() error {
			err := next()
			if err == nil && call != "status" && call != "record" {
				w.changes = append(w.changes, call)
			}
			return err
		})
	}
	w.api = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.MultidimPodAutoscaler{}).
		WithObjects(deployment(2), replicaSet(), pod(0), pod(1), node("a"), node("b")).Build()
	w.theirs = interceptor.NewClient(w.api, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if _, is := o.(*corev1.ConfigMap); is {
				return do("record", func() error { return c.Patch(ctx, o, p, opts...) })
			}
			return do("limit", func() error {
				err := c.Patch(ctx, o, p, opts...)
				if err == nil {
					w.managed(o, v1alpha1.OwnerUpdater)
				}
				return err
			})
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			if pods, ok := list.(*corev1.PodList); ok {
				for i := range pods.Items {
					if m, ok := w.managers[pods.Items[i].Name]; ok {
						pods.Items[i].ManagedFields = []metav1.ManagedFieldsEntry{m}
					}
				}
			}
			return err
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			call := sub
			if o.GetObjectKind().GroupVersionKind().Kind == "Deployment" {
				call = "record"
			}
			return do(call, func() error {
				if call == "resize" || call == "record" { // which this API server does not know
					return c.Patch(ctx, o, p)
				}
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			})
		},
		SubResourceApply: func(ctx context.Context, c client.Client, sub string, a runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			return do(sub, func() error { return c.SubResource(sub).Apply(ctx, a, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			return do(sub, func() error { return c.SubResource(sub).Update(ctx, o, opts...) })
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, s client.Object, opts ...client.SubResourceCreateOption) error {
			return do(sub, func() error { return c.SubResource(sub).Create(ctx, o, s, opts...) })
		},
	})
	require.NoError(t, w.api.Create(t.Context(), web(mode)))
	w.restart()
	return w
}

// restart replaces the updater by a new one.
func (w *world) restart() {
	w.updater = &updater{
		Options: Options{Scalings: 12, Resizes: 6, EvictAfter: 5 * time.Minute, Workers: 1}, client: w.theirs, direct: w.theirs, clock: w.clock,
		evictor: evict.New(actuate.Cluster(w.theirs, w.theirs), evict.Updater, evict.Limits{}, w.clock),
		events:  record.NewFakeRecorder(1000), metrics: newMetrics(), objects: map[types.NamespacedName]*object{},
	}
}

func web(mode v1alpha1.Mode) *v1alpha1.MultidimPodAutoscaler {
	return &v1alpha1.MultidimPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "mpa", Generation: 1},
		Spec: v1alpha1.MultidimPodAutoscalerSpec{
			ScaleTargetRef: v1alpha1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, Mode: mode,
			Constraints: v1alpha1.Constraints{
				Replicas:   v1alpha1.ReplicaRange{Min: 1, Max: 10},
				Containers: []v1alpha1.ContainerConstraints{{Name: "web", Controlled: []corev1.ResourceName{"cpu", "memory"}}},
			},
		},
	}
}

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func deployment(replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "deployment"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{Spec: pod(0).Spec},
		},
	}
}

func ownedBy(apiVersion, kind, name string, uid types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: new(true)}}
}

func replicaSet() *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web-1", UID: "set", Labels: map[string]string{"app": "web"},
		OwnerReferences: ownedBy("apps/v1", "Deployment", "web", "deployment"),
	}}
}

// pod is an hour old.
func pod(i int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: fmt.Sprintf("web-1-%d", i), UID: types.UID(fmt.Sprint("pod", i)),
			CreationTimestamp: metav1.NewTime(start.Add(-time.Hour)),
			Labels:            map[string]string{"app": "web", appsv1.DefaultDeploymentUniqueLabelKey: "1"},
			OwnerReferences:   ownedBy("apps/v1", "ReplicaSet", "web-1", "set"),
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "web", Resources: corev1.ResourceRequirements{Requests: amounts("500m", "512Mi"), Limits: amounts("1", "512Mi")},
		}}, NodeName: "a"},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "web", Resources: &corev1.ResourceRequirements{
				Requests: amounts("500m", "512Mi"), Limits: amounts("1", "512Mi"),
			}}},
		},
	}
}

func node(name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Allocatable = amounts("4", "8Gi")
	n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("110")
	return n
}

func (w *world) object() *v1alpha1.MultidimPodAutoscaler {
	w.t.Helper()
	m := &v1alpha1.MultidimPodAutoscaler{}
	require.NoError(w.t, w.api.Get(w.t.Context(), key, m))
	return m
}

func (w *world) actuation() *v1alpha1.Actuation {
	w.t.Helper()
	a := w.object().Status.Actuation
	require.NotNil(w.t, a)
	return a
}

func (w *world) able() string {
	w.t.Helper()
	c := meta.FindStatusCondition(w.object().Status.Conditions, v1alpha1.ConditionAble)
	require.NotNil(w.t, c)
	return c.Reason
}

// recommend writes a recommendation with the present time.
func (w *world) recommend(id int64, replicas int32, cpu string, edit ...func(*v1alpha1.Recommendation)) {
	w.t.Helper()
	m := w.object()
	r := &v1alpha1.Recommendation{ID: id, Time: metav1.NewMicroTime(w.clock.Now()), Change: v1alpha1.ChangeReplicas, Replicas: replicas}
	if cpu != "" {
		c := resource.MustParse(cpu)
		r.Change, r.Containers = v1alpha1.ChangeRequests, []v1alpha1.ContainerRequests{{Name: "web", CPU: &c}}
	}
	for _, e := range edit {
		e(r)
	}
	m.Status.Recommendation = r
	require.NoError(w.t, w.api.Status().Update(w.t.Context(), m))
}

// reconcile runs the updater until it has nothing to do now.
func (w *world) reconcile() error {
	w.t.Helper()
	for range 5 {
		result, err := w.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: key})
		if err != nil {
			return err
		}
		if result.RequeueAfter == 0 || result.RequeueAfter > time.Second {
			break
		}
	}
	return nil
}

func (w *world) settle() {
	w.t.Helper()
	require.NoError(w.t, w.reconcile())
}

func (w *world) replicas() int32 {
	w.t.Helper()
	d := &appsv1.Deployment{}
	require.NoError(w.t, w.api.Get(w.t.Context(), key, d))
	return *d.Spec.Replicas
}

func (w *world) pods() []corev1.Pod {
	w.t.Helper()
	var l corev1.PodList
	require.NoError(w.t, w.api.List(w.t.Context(), &l))
	return l.Items
}

// kubelet carries out all resizes, or reports why it does not.
func (w *world) kubelet(reason string) {
	w.t.Helper()
	for _, p := range w.pods() {
		p.Status.Conditions = p.Status.Conditions[:1]
		if reason == "" {
			p.Status.ContainerStatuses[0].Resources = p.Spec.Containers[0].Resources.DeepCopy()
		} else {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
				Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason, Message: "so says the node", LastTransitionTime: metav1.NewTime(w.clock.Now()),
			})
		}
		require.NoError(w.t, w.api.Status().Update(w.t.Context(), &p))
	}
}

// onOneGoroutine leaves a long test of virtual time to the runs without the race detector, which has nothing to find there.
func onOneGoroutine(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("virtual time on one goroutine")
	}
}
