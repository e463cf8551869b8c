package kube_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// town has nodes with cores, on each of which five pods of 2 cores stand and room for two of
// one core is reserved.
func town(b *testing.B, nodes int, cores int64) (w *kube.Translator, places []v1alpha1.PlannedNode) {
	b.Helper()
	l := ledger.New()
	apply := func(e *ledger.Event) { require.NoError(b, l.Apply(e)) }
	apply(&ledger.Event{Kind: ledger.KindStart, Start: &ledger.Start{Version: ledger.Version, Fleet: "fixed", Units: podspec.Units}})
	w = kube.NewTranslator("", l, apply)
	for i := range nodes {
		name := fmt.Sprintf("node-%04d", i)
		var pods []*v1.Pod
		for k := range 5 {
			pods = append(pods, sizedPod(fmt.Sprint("db-", i, "-", k), fmt.Sprint("db-", k), "2", name))
		}
		w.SetNode(sized(name, cores), pods)
		places = append(places, on(name, 2))
	}
	plan, err := kube.NewPlan(planObject(webOn(places...)), "")
	require.NoError(b, err)
	w.SetPlans([]*kube.Plan{plan}, 1000)
	return w, places
}

// BenchmarkReplan is how long a review holds up the pods to come in which 20 pods lost their
// places, where others have room and where none has.
func BenchmarkReplan(b *testing.B) {
	for _, nodes := range []int{1000, 5000} {
		for _, cores := range []int64{16, 12} {
			b.Run(fmt.Sprint("nodes=", nodes, "/room=", cores > 12), func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					w, places := town(b, nodes, cores)
					for _, p := range places[:10] {
						w.RemoveNode(p.Node)
					}
					b.StartTimer()
					w.ReviewPlans(1001)
					b.StopTimer()
					again := w.Report(w.Plans()[0])
					require.Equal(b, cores > 12, again.Replanned() == 20, "%+v", again)
					b.StartTimer()
				}
			})
		}
	}
}

// BenchmarkCheck is what reservations cost a pod that they are not for: five pods of 2 cores stand on
// each of the nodes, and room is reserved on all of them; one landed since the last check.
func BenchmarkCheck(b *testing.B) {
	for _, nodes := range []int{1000, 5000} {
		b.Run(fmt.Sprint("reserved=", nodes), func(b *testing.B) {
			w, places := town(b, nodes, 16)
			other := podOf("new", ownedBy("Deployment", "other"), requests("cpu", "5"))
			at := 0
			for b.Loop() {
				b.StopTimer()
				landed := webPod(fmt.Sprint("web-", at), "")
				w.Decide(landed, places[at%nodes].Node, &ledger.Decision{Cause: ledger.CausePlanned})
				if at++; at%(2*nodes) == 0 {
					b.Fatal("all have landed")
				}
				b.StartTimer()
				if w.Check(other, time.Time{}).Refusal(places[nodes-1].Node) == "" {
					b.Fatal("it is not refused")
				}
			}
		})
	}
}
