package kube_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/plugins/kube"
)

// expected is the forecast so far.
func (w *world) expected() map[string]float64 {
	known := map[string]float64{}
	for _, e := range w.events {
		for name, n := range e.Expected {
			if n < 0 {
				delete(known, name)
			} else {
				known[name] = n
			}
		}
	}
	return known
}

func meta(name string, changes ...func(*metav1.ObjectMeta)) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: "default", Name: name}
	for _, change := range changes {
		change(&m)
	}
	return m
}

func template(cpu string) v1.PodTemplateSpec {
	return v1.PodTemplateSpec{Spec: podOf("x", requests("cpu", cpu)).Spec}
}

func deployment(name string, replicas *int32) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: meta(name), Spec: appsv1.DeploymentSpec{Replicas: replicas, Template: template("1")}}
}

func TestDeclared(t *testing.T) {
	owned := func(m *metav1.ObjectMeta) {
		m.OwnerReferences = []metav1.OwnerReference{{Kind: "Deployment", Name: "web", Controller: new(true)}}
	}
	now := metav1.Now()
	job := func(name string, change func(*batchv1.Job)) *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: meta(name), Spec: batchv1.JobSpec{Template: template("1")}}
		change(j)
		return j
	}
	declared := &kube.Declarations{
		Deployments: []*appsv1.Deployment{deployment("web", new(int32(7))), deployment("one", nil), deployment("off", new(int32(0)))},
		StatefulSets: []*appsv1.StatefulSet{
			{ObjectMeta: meta("db"), Spec: appsv1.StatefulSetSpec{Replicas: new(int32(3)), Template: template("2")}},
		},
		ReplicaSets: []*appsv1.ReplicaSet{
			{ObjectMeta: meta("web-7d4", owned), Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(7)), Template: template("1")}},
			{ObjectMeta: meta("alone"), Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(2)), Template: template("1")}},
		},
		Jobs: []*batchv1.Job{
			job("wide", func(j *batchv1.Job) { j.Spec.Parallelism, j.Spec.Completions = new(int32(5)), new(int32(20)) }),
			job("tail", func(j *batchv1.Job) {
				j.Spec.Parallelism, j.Spec.Completions, j.Status.Succeeded = new(int32(5)), new(int32(20)), 18
			}),
			job("done", func(j *batchv1.Job) { j.Status.CompletionTime = &now }),
			job("held", func(j *batchv1.Job) { j.Spec.Suspend = new(true) }),
			job("backup-29384756", func(j *batchv1.Job) {
				j.OwnerReferences = []metav1.OwnerReference{{Kind: "CronJob", Name: "backup", Controller: new(true)}}
			}),
		},
		CronJobs: []*batchv1.CronJob{{ObjectMeta: meta("backup"), Spec: batchv1.CronJobSpec{
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Parallelism: new(int32(2)), Template: template("1")}},
		}}},
	}
	w := newWorld(t)
	w.Forecast(declared, 0)
	require.Equal(t, map[string]float64{
		"default/Deployment/web@cpu=1": 7, "default/Deployment/one@cpu=1": 1, "default/Deployment/off@cpu=1": 0,
		"default/StatefulSet/db@cpu=2": 3, "default/ReplicaSet/alone@cpu=1": 2,
		"default/Job/wide@cpu=1": 5, "default/Job/tail@cpu=1": 2, "default/CronJob/backup@cpu=1": 2,
	}, w.expected())

	w.emitted()
	w.Forecast(declared, time.Minute)
	require.Empty(t, w.emitted(), "the same again")
	declared.Deployments[0] = deployment("web", new(int32(9)))
	declared.StatefulSets = nil
	w.Forecast(declared, time.Minute)
	require.Len(t, w.events, 1)
	require.Equal(t, map[string]float64{"default/Deployment/web@cpu=1": 9, "default/StatefulSet/db@cpu=2": -1}, w.events[0].Expected)
}

// The pods that a workload's controller makes are those that were forecast.
func TestForecastIsOfTheSameApp(t *testing.T) {
	w := newWorld(t)
	d := deployment("web", new(int32(2)))
	d.Spec.Template.Labels = map[string]string{"app": "web"}
	w.Forecast(&kube.Declarations{Deployments: []*appsv1.Deployment{d}}, 0)
	made := podOf("web-7d4-x", ownedBy("ReplicaSet", "web-7d4"), labelled("app", "web", "pod-template-hash", "7d4"), requests("cpu", "1"))
	require.Contains(t, w.expected(), w.EnsureApp(made).Name())
}

// A new workload is expected at once, where nothing is yet or what is was only counted; what a forecast has said stays.
func TestForecastOfNewWorkloads(t *testing.T) {
	w := newWorld(t)
	w.Forecast(&kube.Declarations{Deployments: []*appsv1.Deployment{deployment("web", new(int32(3)))}}, 0)
	require.Len(t, w.expected(), 1)
	counted := podOf("web-1", ownedBy("Deployment", "counted"), requests("cpu", "1"))
	w.SetNode(nodeOf("a", func(n *v1.Node) { n.Status.Allocatable = list("cpu", "64", "pods", "110") }), []*v1.Pod{counted})
	w.Forecast(&kube.Declarations{Deployments: []*appsv1.Deployment{deployment("web", new(int32(3)))}}, 0)
	require.Equal(t, []string{"default/Deployment/counted@cpu=1"}, w.events[len(w.events)-1].Undeclared)
	var fresh kube.Declarations
	fresh.Add(deployment("counted", new(int32(7))))
	fresh.Add(deployment("web", new(int32(9))))
	fresh.Add(deployment("api", new(int32(5))))
	fresh.Add(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "job"}, Spec: batchv1.JobSpec{Parallelism: new(int32(4)), Template: template("1")}})
	fresh.Add(&v1.Pod{})
	w.ForecastNew(&fresh)
	var counts []float64
	for _, n := range w.expected() {
		counts = append(counts, n)
	}
	require.ElementsMatch(t, []float64{3, 5, 4, 7}, counts)
	require.Empty(t, w.events[len(w.events)-1].Undeclared)
}

// Pods that fit no node, even an empty one, are not expected until one comes that
// holds them.
func TestForecastOfWhatFitsNowhere(t *testing.T) {
	w := newWorld(t)
	d := deployment("web", new(int32(3)))
	d.Spec.Template = template("8")
	declared := &kube.Declarations{Deployments: []*appsv1.Deployment{d}}
	w.SetNode(nodeOf("small", func(n *v1.Node) { n.Status.Allocatable = list("cpu", "4", "pods", "110") }), nil)
	w.Forecast(declared, 0)
	require.Empty(t, w.expected())
	w.SetNode(nodeOf("large", func(n *v1.Node) { n.Status.Allocatable = list("cpu", "16", "pods", "110") }), nil)
	w.Forecast(declared, 0)
	require.Equal(t, map[string]float64{"default/Deployment/web@cpu=8": 3}, w.expected())
}

func TestAutoscaler(t *testing.T) {
	pods := func(n int) []*v1.Pod {
		var list []*v1.Pod
		for i := range n {
			list = append(list, web(fmt.Sprint("web-", i)))
		}
		return list
	}
	hpa := func(least *int32, most int32) *kube.Declarations {
		return &kube.Declarations{
			Deployments: []*appsv1.Deployment{deployment("web", new(int32(4)))},
			Autoscalers: []*autoscalingv2.HorizontalPodAutoscaler{{ObjectMeta: meta("any"), Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "web"}, MinReplicas: least, MaxReplicas: most,
			}}},
		}
	}
	tests := []struct {
		name  string
		least *int32
		most  int32
		seen  int // pods at the peak, a moment ago
		want  float64
	}{
		{"no more than there are", nil, 10, 4, 4},
		{"as many as there were", nil, 10, 8, 8},
		{"within the upper bound", nil, 6, 8, 6},
		{"within the lower bound", new(int32(5)), 10, 0, 5},
		{"replicas are above the bound", nil, 3, 0, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			n := nodeOf("a", func(n *v1.Node) { n.Status.Allocatable = list("cpu", "64", "pods", "110") })
			declared := hpa(tt.least, tt.most)
			w.SetNode(n, pods(tt.seen))
			w.Forecast(declared, 0)
			w.SetNode(n, pods(min(tt.seen, 4)))
			w.Forecast(declared, time.Second)
			require.Equal(t, tt.want, w.expected()[webApp])
		})
	}
}

// What nothing declares is expected as often as it was seen at a time; half of
// what is above the present is forgotten in a day.
func TestPeaksFade(t *testing.T) {
	w := newWorld(t)
	work := func(n int) []*v1.Pod {
		var list []*v1.Pod
		for i := range n {
			list = append(list, podOf(fmt.Sprint("work-", i), requests("cpu", "1")))
		}
		return list
	}
	const app = "default/Pod/work@cpu=1"
	n := nodeOf("a", func(n *v1.Node) { n.Status.Allocatable = list("cpu", "64", "pods", "110") })
	w.SetNode(n, work(16))
	w.Forecast(&kube.Declarations{}, 0)
	require.Equal(t, map[string]float64{app: 16}, w.expected())
	require.Equal(t, []string{app}, w.events[len(w.events)-1].Undeclared)
	w.SetNode(n, work(4))
	for _, want := range []float64{10, 7, 6} { // 4 + 12/2, + 12/4, + 12/8
		w.Forecast(&kube.Declarations{}, 24*time.Hour)
		require.Equal(t, map[string]float64{app: want}, w.expected())
	}
	w.SetNode(n, nil)
	for range 6 {
		w.Forecast(&kube.Declarations{}, 24*time.Hour)
	}
	require.Empty(t, w.expected())
}

// Apps that came and went are forgotten once they are many; those that stand or
// are expected are not.
func TestIdleAppsAreForgotten(t *testing.T) {
	w := newWorld(t)
	n := nodeOf("a", func(n *v1.Node) {
		n.Status.Allocatable, n.Labels = list("cpu", "1k", "pods", "1k"), map[string]string{}
		for i := range 50 {
			n.Labels[fmt.Sprint("n", i)] = ""
		}
	})
	for _, other := range []string{"b", "c"} {
		w.SetNode(nodeOf(other), nil)
	}
	declared := &kube.Declarations{Deployments: []*appsv1.Deployment{deployment("web", new(int32(0)))}}
	stays := podOf("stays", requests("cpu", "1"))
	var brief []*v1.Pod
	for i := range 200 {
		brief = append(brief, podOf(fmt.Sprintf("%dbrief", i), requests("cpu", "1"), func(p *v1.Pod) {
			p.Spec.NodeSelector = map[string]string{fmt.Sprint("n", i%50): ""}
		}))
	}
	w.SetNode(n, append(brief, stays))
	w.SetNode(n, []*v1.Pod{stays})
	w.Forecast(declared, 0)
	require.Len(t, w.ledger.Columns().Instance().Apps, 202)
	require.Len(t, w.ledger.Node("a").Machine().Admits, 50)
	for range 3 {
		w.Forecast(declared, time.Hour)
	}
	var names []string
	for _, a := range w.ledger.Columns().Instance().Apps {
		names = append(names, a.Name)
	}
	require.ElementsMatch(t, []string{"default/Pod/stays@cpu=1", "default/Deployment/web@cpu=1"}, names)
	require.Empty(t, w.ledger.Node("a").Machine().Admits, "and their selectors")

	// An app that comes again is known again.
	w.SetNode(n, []*v1.Pod{stays, brief[0]})
	require.Contains(t, w.picture().apps, w.EnsureApp(brief[0]).Name())
}

// Above a number of apps those that nothing is known of go at once.
func TestTooManyApps(t *testing.T) {
	w := newWorld(t)
	stays := podOf("stays")
	w.SetNode(nodeOf("a"), []*v1.Pod{stays})
	w.Arrive(podOf("waits"))
	for i := range 20_000 {
		w.EnsureApp(podOf(fmt.Sprint(i, "brief")))
	}
	w.DropIdleApps(time.Minute)
	require.Equal(t, 2, w.ledger.AppCount())
	require.Equal(t, 1, w.ledger.Waiting())
}

// A pod may wait so long that its app is forgotten. It is gone without an event
// then, and arrives again when it is tried again.
func TestForgottenWhileItWaits(t *testing.T) {
	w := newWorld(t)
	waits := podOf("waits", requests("cpu", "64"))
	w.Arrive(waits)
	for i := range 40 {
		w.EnsureApp(podOf(fmt.Sprintf("%dbrief", i), requests("cpu", "1")))
	}
	w.Forecast(&kube.Declarations{}, time.Hour)
	require.Zero(t, w.ledger.AppCount())
	w.emitted()
	w.Leave(waits)
	require.Empty(t, w.emitted())
	w.Arrive(waits)
	require.Equal(t, []string{"app default/Pod/waits@cpu=64", "arrive default/waits default/Pod/waits@cpu=64"}, w.emitted())
}
