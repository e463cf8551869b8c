package kube_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/kube"
)

// Tenant a declares as many pods as it can write, in all ways. They count at most 16 times what the nodes hold, in
// each dimension, and what tenant b declares counts as before.
func TestTwoTenantsShareTheForecast(t *testing.T) {
	w := newWorld(t)
	w.SetNode(nodeOf("n", func(n *v1.Node) { n.Status.Allocatable = list("cpu", "8", "pods", "1k") }), nil)
	own := func(name, cpu string, n int32) *appsv1.Deployment {
		d := deployment(name, new(n))
		d.Namespace, d.Spec.Template = "a", template(cpu)
		return d
	}
	announced := own("announced", "2", 1)
	announced.Annotations = map[string]string{kube.ExpectedAnnotation: "2147483647"}
	others := []*appsv1.Deployment{deployment("web", new(int32(3)))}
	w.Forecast(&kube.Declarations{Deployments: append(others, own("wide", "1", math.MaxInt32), announced)}, 0)
	got := w.expected()
	require.Equal(t, 3., got["default/Deployment/web@cpu=1"])
	cores := got["a/Deployment/wide@cpu=1"] + 2*got["a/Deployment/announced@cpu=2"]
	require.LessOrEqual(t, cores, 16*8.)
	require.Greater(t, cores, 16*8.-3)
	require.Greater(t, got["a/Deployment/announced@cpu=2"], 20., "both are lowered alike")

	// A workload counts at once when it is new, and no more then.
	w.ForecastNew(&kube.Declarations{Deployments: []*appsv1.Deployment{own("new", "1", math.MaxInt32), deployment("small", new(int32(2)))}})
	require.Equal(t, 128., w.expected()["a/Deployment/new@cpu=1"])
	require.Equal(t, 2., w.expected()["default/Deployment/small@cpu=1"])
}

// A long annotation is cut before it is part of an event, of which the API server refuses long ones, or of a line in the log.
func TestTwoTenantsLongAnnotations(t *testing.T) {
	long := strings.Repeat("é\n", 100_000)
	d := deployment("web", nil)
	d.Annotations = map[string]string{kube.WindowAnnotation: long, kube.ExpectedAnnotation: long}
	faults := newWorld(t).Forecast(&kube.Declarations{Deployments: []*appsv1.Deployment{d}}, 0)
	require.Len(t, faults, 2)
	for _, f := range faults {
		require.Less(t, len(f.Text), 400)
		require.NotContains(t, f.Text, "\n")
		require.Contains(t, f.Text, `"é\né\n`)
		require.Contains(t, f.Text, `…"`)
	}
}

// Tenant a has a pod for each node, with a selector that admits this node alone. Each costs a line of its own, and no line
// about a node or about a selector of tenant b is written again.
func TestTwoTenantsManySelectors(t *testing.T) {
	const nodes = 300
	size := func(from int) (bytes, lines int) {
		w := newWorld(t)
		taint := func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "b", Effect: v1.TaintEffectNoSchedule}} }
		tolerates := func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{{Key: "b", Operator: v1.TolerationOpExists}} }
		for i := range nodes {
			own := func(n *v1.Node) { n.Labels = map[string]string{"own": n.Name} }
			if i == 0 {
				w.SetNode(nodeOf("n0", own, taint), []*v1.Pod{podOf("b", tolerates, ownedBy("Deployment", "b"))})
				continue
			}
			w.SetNode(nodeOf(fmt.Sprint("n", i), own), nil)
		}
		for i := range from {
			name := fmt.Sprint("n", i)
			a := w.EnsureApp(podOf("a"+name, tolerates, func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"own": name} }))
			require.Equal(t, i != 0, !w.ledger.Admits(w.ledger.Node("n0"), a.Spec().Selector))
			require.True(t, w.ledger.Admits(w.ledger.Node(name), a.Spec().Selector))
		}
		for _, e := range w.events {
			line, err := json.Marshal(e)
			require.NoError(t, err)
			bytes += len(line)
		}
		return bytes, len(w.events)
	}
	without, few := size(0)
	with, many := size(nodes)
	require.Equal(t, 2*nodes, many-few, "a selector and an app each")
	require.Less(t, with-without, 2*nodes*200)
}
