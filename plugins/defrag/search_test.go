package defrag

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/internal/cputime"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// BenchmarkSearch measures a search and what is built before it, for pods of 2.5 to 6 cores on nodes of 32 cores
// with about 30 pods each, of which 1 to 2.25 cores are free.
func BenchmarkSearch(b *testing.B) {
	for _, nodes := range []int{1000, 5000} {
		b.Run(fmt.Sprint("nodes=", nodes), func(b *testing.B) { benchmarkSearch(b, nodes) })
	}
}

func benchmarkSearch(b *testing.B, nodes int) {
	l := ledger.New()
	require.NoError(b, l.Apply(&ledger.Event{Kind: ledger.KindStart, Start: &ledger.Start{Version: ledger.Version, Fleet: "open", Units: podspec.Units}}))
	t := kube.NewTranslator("", l, func(e *ledger.Event) { require.NoError(b, l.Apply(e)) })
	rng := rand.New(rand.NewPCG(301, 2))
	pod := func(name, app, cpu, node string) *v1.Pod {
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), OwnerReferences: []metav1.OwnerReference{{Kind: "Deployment", Name: app, Controller: new(true)}}},
			Spec:       v1.PodSpec{NodeName: node, Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse(cpu)}}}}},
			Status:     v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}},
		}
	}
	var names []string
	for i := range nodes {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%04d", i)}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{"cpu": resource.MustParse("32"), "pods": resource.MustParse("110")}}}
		names = append(names, n.Name)
		var pods []*v1.Pod
		for free := 32_000; free >= 2500; { // else a pod of 2.5 cores needs no move
			app := rng.IntN(400)
			if takes := 500 + 250*(app%5); takes <= free {
				pods = append(pods, pod(fmt.Sprintf("p%d-%d", i, len(pods)), fmt.Sprint("app", app), fmt.Sprint(takes, "m"), n.Name))
				free -= takes
			}
		}
		t.SetNode(n, pods)
	}
	l.Columns() // a scheduler has them
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var found, failed []float64 // processor time, s
	for i := 0; b.Loop(); i++ {
		p := pod("large", fmt.Sprint("large", i%8), fmt.Sprint(2500+500*(i%8), "m"), "")
		app := t.EnsureApp(p)
		r := Request{Pod: p, App: app.Name(), Nodes: names, Chain: 8, MinReplicas: 2}
		began := cputime.Thread()
		if _, node := Find(l, r); node != "" {
			found = append(found, cputime.Thread()-began)
		} else {
			failed = append(failed, cputime.Thread()-began)
		}
	}
	for _, of := range []struct {
		name string
		list []float64
	}{{"found", found}, {"failed", failed}} {
		if len(of.list) > 0 {
			slices.Sort(of.list)
			b.ReportMetric(1e6*of.list[len(of.list)/2], of.name+"-p50-µs")
			b.ReportMetric(1e6*of.list[len(of.list)*99/100], of.name+"-p99-µs")
		}
	}
	b.ReportMetric(float64(len(found))/float64(len(found)+len(failed)), "found")
}
