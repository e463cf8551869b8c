package namespaces

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/horizontal"
)

type world struct {
	*reconciler
	t *testing.T
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithReturnManagedFields().Build()
	return &world{&reconciler{Client: c, own: "sigma-mpa", events: record.NewFakeRecorder(100)}, t}
}

func (w *world) reconcile() ctrl.Result {
	w.t.Helper()
	result, err := w.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "shop"}})
	require.NoError(w.t, err)
	return result
}

// label sets the label of the namespace.
func (w *world) label(value string) {
	w.t.Helper()
	ns := &corev1.Namespace{}
	require.NoError(w.t, w.Get(w.t.Context(), types.NamespacedName{Name: "shop"}, ns))
	ns.Labels = map[string]string{}
	if value != "" {
		ns.Labels[Label] = value
	}
	require.NoError(w.t, w.Update(w.t.Context(), ns))
}

// objects are the algorithms and modes of the objects by name.
func (w *world) objects() map[string]string {
	w.t.Helper()
	list, out := &v1alpha1.MultidimPodAutoscalerList{}, map[string]string{}
	require.NoError(w.t, w.List(w.t.Context(), list))
	for _, o := range list.Items {
		out[o.Name] = o.Spec.Recommender.Algorithm + " " + string(o.Spec.Mode)
	}
	return out
}

func template(cpu string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "web", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": *quantity(cpu)}}}, {Name: "none"},
		}},
	}
}

func deployment(name string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)},
		Spec:       appsv1.DeploymentSpec{Template: template("1"), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}
}

func set(name string) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)},
		Spec:       appsv1.StatefulSetSpec{Template: template("2"), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}
}

func podOf(set *appsv1.StatefulSet, cpu string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: set.Name + "-0", Labels: set.Spec.Selector.MatchLabels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: set.Name, UID: set.UID, Controller: new(true)}},
		},
		Spec: template(cpu).Spec,
	}
}

func shop() *corev1.Namespace { return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}} }

// A label makes objects that observe, and then act; without it they give the requests back before they are deleted.
func TestLabel(t *testing.T) {
	db := set("db")
	pod := podOf(db, "2")
	excluded, besteffort, own := deployment("excluded"), deployment("besteffort"), deployment("own")
	excluded.Annotations = map[string]string{Label: Off}
	besteffort.Spec.Template.Spec.Containers = besteffort.Spec.Template.Spec.Containers[1:]
	others := &v1alpha1.MultidimPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "mine"},
		Spec: v1alpha1.MultidimPodAutoscalerSpec{
			ScaleTargetRef: v1alpha1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "own"}, Mode: v1alpha1.ModeOff, Recommender: v1alpha1.Recommender{Algorithm: "vpa"},
		},
	}
	w := newWorld(t, shop(), deployment("web"), db, pod, excluded, besteffort, own, others)
	w.reconcile()
	require.Equal(t, map[string]string{"mine": "vpa Off"}, w.objects())

	w.label("Observe")
	w.reconcile()
	require.Equal(t, map[string]string{"mine": "vpa Off", "deployment-web": "usage Off", "statefulset-db": "usage Off"}, w.objects())
	o := &v1alpha1.MultidimPodAutoscaler{}
	require.NoError(t, w.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: "statefulset-db"}, o))
	require.Equal(t, "default", o.Spec.Metrics.Prometheus.Server)
	require.Len(t, o.Spec.Constraints.Containers, 1)
	require.Equal(t, []corev1.ResourceName{"cpu"}, o.Spec.Constraints.Containers[0].Controlled)
	require.Equal(t, "db", o.OwnerReferences[0].Name)
	version := o.ResourceVersion
	w.reconcile()
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(o), o))
	require.Equal(t, version, o.ResourceVersion, "written once")

	w.label("aply")
	w.reconcile()
	require.Equal(t, "usage Off", w.objects()["statefulset-db"])

	w.label("Apply")
	w.reconcile()
	require.Equal(t, map[string]string{"mine": "vpa Off", "deployment-web": "usage InPlace", "statefulset-db": "usage InPlace"}, w.objects())
	small := func(cpu string) {
		pod.Spec = template(cpu).Spec
		require.NoError(t, w.Update(t.Context(), pod))
	}
	for _, back := range []string{"Observe", ""} {
		small("100m")
		w.label(back)
		require.Positive(t, w.reconcile().RequeueAfter)
		require.Equal(t, "template InPlaceOrRecreate", w.objects()["statefulset-db"])
		small("2")
		require.Zero(t, w.reconcile().RequeueAfter)
		if back == "Observe" {
			require.Equal(t, "usage Off", w.objects()["statefulset-db"])
			w.label("Apply")
			w.reconcile()
		}
	}
	require.Equal(t, map[string]string{"mine": "vpa Off"}, w.objects())
}

// Observe leaves pods alone that differ from their template for other reasons, such as a rollout.
func TestObserveLeavesPodsAlone(t *testing.T) {
	db := set("db")
	w := newWorld(t, shop(), db, podOf(db, "3"))
	w.label("Observe")
	for range 3 {
		require.Zero(t, w.reconcile().RequeueAfter)
		require.Equal(t, map[string]string{"statefulset-db": "usage Off"}, w.objects())
	}
	w.label("")
	w.reconcile()
	require.Empty(t, w.objects())
}

// A user's object with the name of one that would be made keeps the others from nothing.
func TestTakenName(t *testing.T) {
	theirs := &v1alpha1.MultidimPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "deployment-a"},
		Spec:       v1alpha1.MultidimPodAutoscalerSpec{ScaleTargetRef: v1alpha1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "other"}, Mode: v1alpha1.ModeOff, Recommender: v1alpha1.Recommender{Algorithm: "vpa"}},
	}
	w := newWorld(t, shop(), theirs, deployment("a"), deployment("b"))
	w.label("Apply")
	w.reconcile()
	require.Equal(t, map[string]string{"deployment-a": "vpa Off", "deployment-b": "usage InPlace"}, w.objects())
}

// An object waits for the targets of its HorizontalPodAutoscaler.
func TestLabelWaitsForTargets(t *testing.T) {
	h := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{horizontal.Annotation: `[{"resource":"cpu","percent":60,"value":"600m"}]`}},
		Spec:       autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}},
	}
	w := newWorld(t, shop(), deployment("web"), h)
	w.label("Apply")
	w.reconcile()
	w.label("")
	w.reconcile()
	require.Equal(t, map[string]string{"deployment-web": "template InPlaceOrRecreate"}, w.objects())
	h.Annotations = nil
	require.NoError(t, w.Update(t.Context(), h))
	w.reconcile()
	require.Empty(t, w.objects())
}

// A user's own edit of an object stays; a deleted one is made again.
func TestEdited(t *testing.T) {
	w := newWorld(t, shop(), deployment("web"))
	w.label("Apply")
	w.reconcile()
	o := &v1alpha1.MultidimPodAutoscaler{}
	require.NoError(t, w.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: "deployment-web"}, o))
	o.Spec.Mode = v1alpha1.ModeInitial
	require.NoError(t, w.Update(t.Context(), o, client.FieldOwner("kubectl-edit")))
	w.reconcile()
	w.label("Observe")
	w.reconcile()
	require.Equal(t, "usage Initial", w.objects()["deployment-web"])
	require.NoError(t, w.Delete(t.Context(), o))
	w.reconcile()
	require.Equal(t, "usage Off", w.objects()["deployment-web"])
}

// Names are valid and differ.
func TestNames(t *testing.T) {
	long := strings.Repeat("long-", 20)
	w := newWorld(t, shop(), deployment(long+"a"), deployment(long+"b"), deployment("web"), set("web"))
	w.label("Observe")
	w.reconcile()
	require.Len(t, w.objects(), 4)
	for name := range w.objects() {
		require.LessOrEqual(t, len(name), 63)
	}
}

// What fails is tried again, and nothing is deleted meanwhile: the controller may be killed at each call.
func TestKilledAtEachCall(t *testing.T) {
	for calls := range 20 {
		db := set("db")
		w := newWorld(t, shop(), deployment("web"), db, podOf(db, "100m"))
		w.label("Apply")
		w.reconcile()
		w.label("")
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		w.Client = &counting{w.Client, func() {
			if n++; n > calls {
				cancel()
			}
		}}
		_, err := w.Reconcile(ctx, ctrl.Request{NamespacedName: types.NamespacedName{Name: "shop"}})
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
		w.Client = w.Client.(*counting).Client
		w.reconcile()
		require.Equal(t, map[string]string{"statefulset-db": "template InPlaceOrRecreate"}, w.objects(), calls)
		cancel()
	}
}

// A counting client fails once its context has ended.
type counting struct {
	client.Client
	call func()
}

func (c *counting) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if c.call(); ctx.Err() != nil {
		return ctx.Err()
	}
	return c.Client.Get(ctx, key, o, opts...)
}

func (c *counting) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	if c.call(); ctx.Err() != nil {
		return ctx.Err()
	}
	return c.Client.List(ctx, l, opts...)
}

func (c *counting) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	if c.call(); ctx.Err() != nil {
		return ctx.Err()
	}
	return c.Client.Delete(ctx, o, opts...)
}

func (c *counting) Apply(ctx context.Context, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	if c.call(); ctx.Err() != nil {
		return ctx.Err()
	}
	return c.Client.Apply(ctx, o, opts...)
}
