package kube_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

const gpu = "example.com/gpu"

func TestServed(t *testing.T) {
	class := func(name string, resource *string) *resourcev1.DeviceClass {
		return &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: resource}}
	}
	require.Empty(t, kube.Served(nil))
	require.Equal(t, []string{"deviceclass.resource.kubernetes.io/new", "deviceclass.resource.kubernetes.io/old", "deviceclass.resource.kubernetes.io/plain", gpu},
		kube.Served([]*resourcev1.DeviceClass{class("old", new(gpu)), class("new", new(gpu)), class("plain", nil)}))
}

func train(name string, gpus string) *v1.Pod {
	return podOf(name, ownedBy("Deployment", "train"), requests("cpu", "1", gpu, gpus))
}

func offering(gpus string) func(*v1.Node) {
	return func(n *v1.Node) { n.Status.Allocatable[gpu] = list(gpu, gpus)[gpu] }
}

const (
	trainApp = "default/Deployment/train@cpu=1"
	gpuApp   = "default/Deployment/train@cpu=1," + gpu + "=2"
)

// A resource that a driver serves is left out of demands as long as no node offers
// it, whatever comes first.
func TestServedResourceIsLeftOut(t *testing.T) {
	w := newWorld(t)
	stands, waits := train("stands", "2"), train("waits", "2")
	w.SetNode(nodeOf("a", offering("0")), []*v1.Pod{stands, web("web-1")})
	w.SetNode(nodeOf("b"), nil)
	require.Equal(t, gpuApp, w.Arrive(waits).Name())
	require.False(t, w.fits(gpuApp), "no node has it")
	w.emitted()

	w.SetServed([]string{gpu, "example.com/other"})
	require.Equal(t, []string{"app " + trainApp, "place default/stands " + trainApp + " a"}, w.emitted())
	described := func(e *ledger.Event) bool {
		return e.Kind == ledger.KindArrive && e.Pod == "default/waits" && e.App == gpuApp
	}
	require.True(t, slices.ContainsFunc(w.Describe(), described), "a waiting pod has its former app until it is translated next")
	require.Equal(t, trainApp, w.Arrive(waits).Name())
	require.True(t, w.fits(trainApp))
	require.Equal(t, []string{gpu}, w.IgnoredResources(waits))
	require.Empty(t, w.IgnoredResources(web("web-2")))
	w.SetServed([]string{"example.com/other", gpu})
	require.Empty(t, w.emitted(), "the same again")
	require.Equal(t, []string{gpu, "example.com/other"}, w.Served())

	// The first node that offers it: the amount counts again, on all nodes.
	w.SetNode(nodeOf("c", offering("8")), nil)
	require.Equal(t, []string{"node c", "place default/stands " + gpuApp + " a"}, w.emitted())
	require.Equal(t, gpuApp, w.Arrive(waits).Name())
	require.Empty(t, w.IgnoredResources(waits))
	w.SetNode(nodeOf("b", offering("8")), nil) // a second one
	w.SetNode(nodeOf("b"), nil)
	w.RemoveNode("b")
	require.Equal(t, []string{"node b", "node b", "forget b"}, w.emitted())

	w.RemoveNode("c") // the last one
	require.Equal(t, []string{"forget c", "place default/stands " + trainApp + " a"}, w.emitted())
	w.SetNode(nodeOf("a", offering("4")), []*v1.Pod{stands, web("web-1")})
	require.Equal(t, []string{"node a", "place default/stands " + gpuApp + " a"}, w.emitted())
	require.EqualValues(t, 2, w.picture().free["a"][gpu])
	w.SetNode(nodeOf("a"), []*v1.Pod{stands, web("web-1")})
	require.Equal(t, []string{"node a", "place default/stands " + trainApp + " a"}, w.emitted())

	w.SetServed(nil)
	require.Equal(t, []string{"place default/stands " + gpuApp + " a"}, w.emitted())
	w.SetNode(nodeOf("a"), nil) // a pod that was translated again is removed as any
	w.Leave(waits)
	require.Equal(t, []string{"remove default/stands", "remove default/web-1", "remove default/waits"}, w.emitted())
}

// fits reports whether an app fits some node.
func (w *world) fits(app string) bool {
	return len(w.ledger.Fits(w.ledger.AppIndex(app), nil)) > 0
}

// Pods are expected although no node offers what a driver serves.
func TestServedResourceIsForecast(t *testing.T) {
	w := newWorld(t)
	w.SetNode(nodeOf("a"), nil)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "train"}}
	d.Spec.Replicas, d.Spec.Template.Spec = new(int32(3)), train("x", "2").Spec
	declared := &kube.Declarations{Deployments: []*appsv1.Deployment{d}}
	w.Forecast(declared, 0)
	require.Empty(t, w.ledger.Expected())
	w.SetServed([]string{gpu})
	w.Forecast(declared, time.Minute)
	require.Equal(t, map[string]float64{trainApp: 3}, w.ledger.Expected())
}
