package target_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/target"
)

type indexer struct{ *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, o client.Object, field string, f client.IndexerFunc) error {
	i.WithIndex(o, field, f)
	return nil
}

func ownedBy(apiVersion, kind, name string, uid types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: new(true)}}
}

// metadata of an object of app web.
func metadata(name string, uid types.UID, owners []metav1.OwnerReference, hash string) metav1.ObjectMeta {
	labels := map[string]string{"app": "web"}
	if hash != "" {
		labels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
	}
	return metav1.ObjectMeta{Namespace: "shop", Name: name, UID: uid, OwnerReferences: owners, Labels: labels}
}

func pod(name string, owners []metav1.OwnerReference, hash string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metadata(name, types.UID(name), owners, hash)}
}

func replicaSet(name string, uid types.UID, owners []metav1.OwnerReference) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: metadata(name, uid, owners, "")}
}

// newCluster has a Deployment and a StatefulSet web, and pods whose labels match both.
func newCluster(t *testing.T) client.Client {
	t.Helper()
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	ours, set := ownedBy("apps/v1", "Deployment", "web", "d"), func(name string, uid types.UID) []metav1.OwnerReference {
		return ownedBy("apps/v1", "ReplicaSet", name, uid)
	}
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&appsv1.Deployment{ObjectMeta: metadata("web", "d", nil, ""), Spec: appsv1.DeploymentSpec{Selector: selector}},
		&appsv1.StatefulSet{ObjectMeta: metadata("web", "s", nil, ""), Spec: appsv1.StatefulSetSpec{Selector: selector, Replicas: new(int32(3))}},
		replicaSet("web-1", "set1", ours), replicaSet("web-2", "set2", ours), replicaSet("web-3", "set3", nil),
		pod("b-of-the-first-set", set("web-1", "set1"), "1"), pod("a-of-the-second-set", set("web-2", "set2"), "2"),
		pod("of-a-set-that-lost-its-deployment", set("web-3", "set3"), "3"),
		pod("of-a-set-that-was-made-again", set("web-1", "set0"), "1"),
		pod("of-a-rollout", set("web-4", "set4"), ""),
		pod("of-the-statefulset", ownedBy("apps/v1", "StatefulSet", "web", "s"), ""),
		pod("of-a-statefulset-that-was-made-again", ownedBy("apps/v1", "StatefulSet", "web", "s0"), ""),
		pod("of-a-statefulset-of-kruise", ownedBy("apps.kruise.io/v1beta1", "StatefulSet", "web", "k"), ""),
		pod("of-nobody", nil, ""),
	)
	require.NoError(t, target.Index(t.Context(), indexer{b}))
	return b.Build()
}

func names(pods []corev1.Pod) (list []string) {
	for _, p := range pods {
		list = append(list, p.Name)
	}
	return list
}

// The pods of a workload, whose names and labels others share, found in both ways.
func TestPods(t *testing.T) {
	c := newCluster(t)
	for kind, want := range map[string][]string{
		"Deployment": {"a-of-the-second-set", "b-of-the-first-set"}, "StatefulSet": {"of-the-statefulset"},
	} {
		w, err := target.Find(t.Context(), c, "shop", v1alpha1.TargetReference{Kind: kind, Name: "web"})
		require.NoError(t, err)
		require.Equal(t, "apps/"+kind+"/web", w.Ref().String())
		pods, err := w.Pods(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, want, names(pods), kind)
		pods, err = w.IndexedPods(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, want, names(pods), kind)
	}
}

// A cache that has a pod before its ReplicaSet does not lose the pod.
func TestPodsBeforeTheirReplicaSet(t *testing.T) {
	c := newCluster(t)
	require.NoError(t, c.Delete(t.Context(), replicaSet("web-2", "set2", nil)))
	w, err := target.Find(t.Context(), c, "shop", v1alpha1.TargetReference{Kind: "Deployment", Name: "web"})
	require.NoError(t, err)
	pods, err := w.Pods(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, []string{"a-of-the-second-set", "b-of-the-first-set"}, names(pods))
}

func TestFind(t *testing.T) {
	c := newCluster(t)
	for kind, replicas := range map[string]int32{"Deployment": 1, "StatefulSet": 3} {
		w, err := target.Find(t.Context(), c, "shop", v1alpha1.TargetReference{Kind: kind, Name: "web"})
		require.NoError(t, err)
		require.Equal(t, replicas, w.Replicas, "1 is the API server's default")
		require.Equal(t, "app=web", w.Selector.String())
	}
	_, err := target.Find(t.Context(), c, "shop", v1alpha1.TargetReference{Kind: "Deployment", Name: "none"})
	require.True(t, apierrors.IsNotFound(err))
	_, err = target.Find(t.Context(), c, "shop", v1alpha1.TargetReference{Kind: "Job", Name: "web"})
	require.EqualError(t, err, `scaleTargetRef.kind "Job": want Deployment or StatefulSet`)
}

func TestContainers(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	spec := corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "init"}, {Name: "sidecar", RestartPolicy: &always}},
		Containers:     []corev1.Container{{Name: "web"}, {Name: "proxy"}},
	}
	var list []string
	for _, c := range target.Containers(&spec) {
		list = append(list, c.Name)
	}
	require.Equal(t, []string{"sidecar", "web", "proxy"}, list)
	target.Containers(&spec)[1].Image = "web:2"
	require.Equal(t, "web:2", spec.Containers[0].Image, "the spec's own")
}
