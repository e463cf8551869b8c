package oracle

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/podautoscaler"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
)

// podMetrics answers the calculator with the cpu of a set of pods.
type podMetrics struct {
	metrics.MetricsClient
	pods metrics.PodMetricsInfo
}

func (m podMetrics) GetResourceMetric(context.Context, v1.ResourceName, string, labels.Selector, string) (metrics.PodMetricsInfo, time.Time, error) {
	return m.pods, time.Time{}, nil
}

// TestReplicasByCPU compares the replica calculation with upstream's
// ReplicaCalculator: pods of all phases and ages, with and without metrics.
func TestReplicasByCPU(t *testing.T) {
	const cases = 20_000
	d := rand.New(rand.NewPCG(1, 2))
	answered, held := 0, 0
	for i := range cases {
		now := time.Now()
		cfg := agents.DefaultHPA()
		cfg.Utilisation = []int32{30, 50, 80, 100, 150}[d.IntN(5)]
		cfg.Up.Tolerance, cfg.Down.Tolerance = []float64{0, .05, .1, .5}[d.IntN(4)], []float64{0, .05, .1, .5}[d.IntN(4)]
		o := mpa.Observation{Time: now, Replicas: int32(1 + d.IntN(8))}
		store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		known := metrics.PodMetricsInfo{}
		level := d.Float64() * 2 * float64(cfg.Utilisation) / 100
		for j := range d.IntN(9) {
			ours, theirs, metric := randomPod(d, now, fmt.Sprintf("p%d", j), level)
			o.Pods = append(o.Pods, ours)
			if err := store.Add(theirs); err != nil {
				t.Fatal(err)
			}
			if metric != nil {
				known[theirs.Name] = *metric
			}
		}
		calculator := podautoscaler.NewReplicaCalculator(podMetrics{pods: known}, corelisters.NewPodLister(store), cfg.Initialisation, cfg.Readiness)
		tolerances := [2]float64{cfg.Down.Tolerance, cfg.Up.Tolerance}
		want, utilisation, _, _, wantErr := calculator.GetResourceReplicas(t.Context(), o.Replicas, cfg.Utilisation, v1.ResourceCPU,
			*(*podautoscaler.Tolerances)(unsafe.Pointer(&tolerances)), "default", labels.Everything(), "")
		got, gotUtilisation, err := agents.NewHPA(mpa.Target{}, cfg).ReplicasByCPU(&o)
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("case %d: error %v, upstream's %v\n%+v", i, err, wantErr, o)
		}
		if err != nil {
			continue
		}
		if got != want || gotUtilisation != int64(utilisation) {
			t.Fatalf("case %d: %d replicas at %d %%, upstream has %d at %d %%\n%+v", i, got, gotUtilisation, want, utilisation, o)
		}
		answered++
		if want == o.Replicas {
			held++
		}
	}
	if answered < cases/2 || held == 0 || held == answered {
		t.Fatalf("of %d cases %d were answered and %d held: the cases prove little", cases, answered, held)
	}
}

// randomPod is a pod as we see it, as upstream sees it, and its cpu metric, nil when
// there is none. Amounts are cores, ages up to 10 minutes.
func randomPod(d *rand.Rand, now time.Time, name string, level float64) (mpa.Pod, *v1.Pod, *metrics.PodMetric) {
	request := int64(100 * (1 + d.IntN(20)))
	ours := mpa.Pod{
		Name: name, Phase: mpa.Running,
		Containers: []mpa.Container{{Name: "app", Request: mpa.Resources{CPU: request}}},
	}
	theirs := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(request, resource.DecimalSI)},
		}}}},
		Status: v1.PodStatus{Phase: v1.PodRunning},
	}
	switch d.IntN(12) {
	case 0:
		ours.Phase, theirs.Status.Phase = mpa.Pending, v1.PodPending
	case 1:
		ours.Phase, theirs.Status.Phase = mpa.Ended, v1.PodFailed
	case 2:
		at := metav1.NewTime(now)
		ours.Deleting, theirs.DeletionTimestamp = true, &at
	}
	ago := func() time.Time { return now.Add(-time.Duration(1+d.IntN(600)) * time.Second) }
	if d.IntN(10) > 0 {
		at := ago()
		ours.Started, theirs.Status.StartTime = at, &metav1.Time{Time: at}
	}
	if d.IntN(10) > 0 {
		at := ago()
		if d.IntN(3) > 0 && !ours.Started.IsZero() {
			at = ours.Started.Add(time.Duration(d.IntN(60)) * time.Second)
		}
		ours.Ready, ours.ReadySince = d.IntN(5) > 0, at
		status := v1.ConditionFalse
		if ours.Ready {
			status = v1.ConditionTrue
		}
		theirs.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(at)}}
	}
	if d.IntN(8) == 0 {
		return ours, theirs, nil
	}
	usage := int64(level * float64(request) * (.5 + d.Float64()))
	at, window := now.Add(-time.Duration(d.IntN(60))*time.Second), time.Duration(15+d.IntN(60))*time.Second
	ours.Containers[0].Usage = mpa.Usage{Resources: mpa.Resources{CPU: usage}, Time: at, Window: window}
	return ours, theirs, &metrics.PodMetric{Timestamp: at, Window: window, Value: usage}
}
