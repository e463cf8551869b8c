package kube

import (
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// Declarations are the objects of a cluster that declare numbers of pods.
type Declarations struct {
	Deployments  []*appsv1.Deployment
	StatefulSets []*appsv1.StatefulSet
	ReplicaSets  []*appsv1.ReplicaSet
	Jobs         []*batchv1.Job
	CronJobs     []*batchv1.CronJob
	Autoscalers  []*autoscalingv2.HorizontalPodAutoscaler
}

// Add adds a workload; other objects are ignored.
func (d *Declarations) Add(object any) {
	switch o := object.(type) {
	case *appsv1.Deployment:
		d.Deployments = append(d.Deployments, o)
	case *appsv1.StatefulSet:
		d.StatefulSets = append(d.StatefulSets, o)
	case *appsv1.ReplicaSet:
		d.ReplicaSets = append(d.ReplicaSets, o)
	case *batchv1.Job:
		d.Jobs = append(d.Jobs, o)
	case *batchv1.CronJob:
		d.CronJobs = append(d.CronJobs, o)
	}
}

// A workload is a number of pods of one template. An autoscaler may change the
// number within its bounds.
type workload struct {
	plan
	pod         *v1.Pod // as its controller will create it
	replicas    int32
	scaled      bool
	least, most int32
}

type target struct{ namespace, kind, name string }

// workloads lists the objects with replicas that no other controller created, and
// jobs.
func (d *Declarations) workloads() []workload {
	bounds := map[target]*autoscalingv2.HorizontalPodAutoscaler{}
	for _, h := range d.Autoscalers {
		bounds[target{h.Namespace, h.Spec.ScaleTargetRef.Kind, h.Spec.ScaleTargetRef.Name}] = h
	}
	var list []workload
	add := func(version, kind string, meta *metav1.ObjectMeta, template *v1.PodTemplateSpec, replicas *int32) {
		if metav1.GetControllerOf(meta) != nil && kind != "Job" {
			return
		}
		w := workload{plan: planOf(version, kind, meta), pod: podOf(kind, meta, template), replicas: 1}
		h, scaled := bounds[target{meta.Namespace, kind, meta.Name}]
		switch {
		case w.expected != nil: // whatever an autoscaler does
			w.replicas = *w.expected
		case replicas != nil:
			w.replicas = *replicas
		}
		if scaled && w.expected == nil {
			w.scaled, w.least, w.most = true, 1, h.Spec.MaxReplicas
			if h.Spec.MinReplicas != nil {
				w.least = *h.Spec.MinReplicas
			}
		}
		list = append(list, w)
	}
	for _, o := range d.Deployments {
		add("apps/v1", "Deployment", &o.ObjectMeta, &o.Spec.Template, o.Spec.Replicas)
	}
	for _, o := range d.StatefulSets {
		add("apps/v1", "StatefulSet", &o.ObjectMeta, &o.Spec.Template, o.Spec.Replicas)
	}
	for _, o := range d.ReplicaSets {
		add("apps/v1", "ReplicaSet", &o.ObjectMeta, &o.Spec.Template, o.Spec.Replicas)
	}
	for _, o := range d.CronJobs {
		add("batch/v1", "CronJob", &o.ObjectMeta, &o.Spec.JobTemplate.Spec.Template, o.Spec.JobTemplate.Spec.Parallelism)
	}
	for _, o := range d.Jobs {
		if o.Status.CompletionTime == nil && (o.Spec.Suspend == nil || !*o.Spec.Suspend) && metav1.GetControllerOf(o) == nil {
			add("batch/v1", "Job", &o.ObjectMeta, &o.Spec.Template, parallel(o))
		}
	}
	return list
}

// parallel returns the number of pods of a job that run at the same time.
func parallel(j *batchv1.Job) *int32 {
	n := j.Spec.Parallelism
	if left := j.Spec.Completions; left != nil && n != nil {
		n = new(min(*n, max(0, *left-j.Status.Succeeded)))
	}
	return n
}

// podOf returns a pod as the controller of a template creates it, as far as a policy sees it.
func podOf(kind string, meta *metav1.ObjectMeta, template *v1.PodTemplateSpec) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: meta.Namespace, Labels: template.Labels, Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{{Kind: kind, Name: meta.Name, Controller: new(true)}},
		},
		Spec: template.Spec,
	}
}

const (
	// peakHalfLife is the time after which half of the difference between the peak
	// and the present number is forgotten.
	peakHalfLife = 24 * time.Hour
	// idleFor is how long an app without pods and without a forecast is remembered.
	idleFor = time.Hour
	// manyApps is the number above which such an app is forgotten at once.
	manyApps = 20_000
)

// Forecast brings the expected numbers up to date with the declared ones. An app
// that no object declares is expected as often as its fading peak: the most pods at a
// time. An app with an autoscaler likewise, within the autoscaler's bounds. since is
// the time since the last call. Apps without pods for long are forgotten. The windows of
// planned roll-outs are brought up to date too. The faults are those of annotations.
func (t *Translator) Forecast(declared *Declarations, since time.Duration) []Fault {
	wants := declaredBy{}
	plans := map[string][]plan{}
	named := map[*ledger.Group]bool{}
	for _, w := range declared.workloads() {
		if !podspec.Moves(w.pod) {
			continue
		}
		a := t.EnsureApp(w.pod)
		if a == nil {
			continue
		}
		named[a.Group()] = true
		plans[a.Group().Name()] = append(plans[a.Group().Name()], w.plan)
		if !t.fitsSomewhere(a.Spec()) { // no policy should make room for pods that fit nowhere
			continue
		}
		n := float64(w.replicas)
		if w.scaled {
			n = min(max(n, math.Round(a.Group().Peak), float64(w.least)), float64(w.most))
		}
		wants.add(w.workload.Namespace, a, n)
	}
	expected := t.bound(wants)
	undeclared := map[string]bool{}
	keep := math.Exp2(-float64(since) / float64(peakHalfLife))
	for _, g := range t.ledger.Groups() {
		now := float64(g.Pods())
		g.Peak = now + (max(g.Peak, now)-now)*keep
		if named[g] {
			continue
		}
		if n := math.Round(g.Peak); n > 0 && g.Latest() != nil {
			expected[g.Latest().Name()], undeclared[g.Latest().Name()] = n, true
		}
	}
	t.sweep(expected, since)
	t.setExpected(expected, undeclared)
	return t.setWindows(plans)
}

// ForecastNew emits the numbers of pods that new workloads declare, where their apps have no
// expected number yet, or an undeclared one. It leaves autoscalers and windows to the next forecast.
func (t *Translator) ForecastNew(declared *Declarations) {
	known, wants := t.ledger.Expected(), declaredBy{}
	for _, w := range declared.workloads() {
		if !podspec.Moves(w.pod) {
			continue
		}
		a := t.EnsureApp(w.pod)
		if a == nil || !t.fitsSomewhere(a.Spec()) {
			continue
		}
		if _, ok := known[a.Name()]; !ok || t.ledger.Undeclared()[a.Name()] {
			wants.add(w.workload.Namespace, a, float64(w.replicas))
		}
	}
	if expected := t.bound(wants); len(expected) > 0 {
		t.emit(&ledger.Event{Kind: ledger.KindForecast, Expected: expected})
	}
}

// mostDeclared bounds the demand of the workloads of one namespace, in multiples of the capacity of all nodes. More
// cannot be placed soon, and would leave no weight to the forecast of others.
const mostDeclared = 16

// declaredBy has the numbers of pods that are declared, by namespace and app.
type declaredBy map[string]map[*ledger.AppEntry]float64

func (d declaredBy) add(namespace string, a *ledger.AppEntry, n float64) {
	if d[namespace] == nil {
		d[namespace] = map[*ledger.AppEntry]float64{}
	}
	d[namespace][a] += n
}

// bound returns the numbers by app. If a namespace declares too much of a
// dimension, all its apps that need it are lowered by the same factor.
func (t *Translator) bound(declared declaredBy) map[string]float64 {
	capacity, expected := map[string]float64{}, map[string]float64{}
	if len(declared) == 0 { // as in most cycles: the sum below is of all nodes
		return expected
	}
	for n := range t.ledger.Nodes() {
		for dim, amount := range n.Machine().Capacity {
			capacity[dim] += float64(amount)
		}
	}
	for _, apps := range declared {
		total := map[string]float64{}
		for a, n := range apps {
			for dim, need := range a.Spec().Demand {
				total[dim] += n * float64(need)
			}
		}
		for a, n := range apps {
			share := 1.
			for dim := range a.Spec().Demand {
				if most := mostDeclared * capacity[dim]; total[dim] > most && t.ledger.NodeCount() > 0 {
					share = min(share, most/total[dim])
				}
			}
			if expected[a.Name()] = n; share < 1 {
				expected[a.Name()] = math.Floor(n * share)
			}
		}
	}
	return expected
}

// setExpected emits the numbers that changed.
func (t *Translator) setExpected(expected map[string]float64, undeclared map[string]bool) {
	changed, counted := map[string]float64{}, []string(nil)
	before, were := t.ledger.Expected(), t.ledger.Undeclared()
	for name, n := range expected {
		if old, ok := before[name]; !ok || old != n || undeclared[name] != were[name] {
			changed[name] = n
			if undeclared[name] {
				counted = append(counted, name)
			}
		}
	}
	slices.Sort(counted)
	for name := range before {
		if _, ok := expected[name]; !ok {
			changed[name] = -1
		}
	}
	if len(changed) > 0 {
		t.emit(&ledger.Event{Kind: ledger.KindForecast, Expected: changed, Undeclared: counted})
	}
}

// fitsSomewhere reports whether a pod of an app fits some node that is otherwise
// empty; true while there are no nodes.
func (t *Translator) fitsSomewhere(a *ledger.App) bool {
	for n := range t.ledger.Nodes() {
		m := n.Machine()
		fits := !m.Cordoned && t.ledger.Admits(n, a.Selector)
		for dim, need := range a.Demand {
			fits = fits && need <= m.Capacity[dim]
		}
		if fits {
			return true
		}
	}
	return t.ledger.NodeCount() == 0
}

// DropIdleApps drops idle apps when no forecast arrives to do so.
func (t *Translator) DropIdleApps(since time.Duration) { t.sweep(t.ledger.Expected(), since) }

// sweep drops the apps that have had neither pods nor a forecast for long, once they
// are many.
func (t *Translator) sweep(expected map[string]float64, since time.Duration) {
	var idle []string
	tooMany := t.ledger.AppCount() > manyApps
	for a := range t.ledger.Apps() {
		if _, ok := expected[a.Name()]; ok || a.Pods() > 0 || a.Reserved() > 0 {
			a.Idle = 0
			continue
		}
		if a.Idle += since; a.Idle >= idleFor || tooMany && a.TotalPods() == 0 {
			idle = append(idle, a.Name())
		}
	}
	if len(idle) <= 16+t.ledger.AppCount()/8 {
		return
	}
	slices.Sort(idle)
	for _, name := range idle {
		t.emit(&ledger.Event{Kind: ledger.KindForget, App: name})
	}
	for _, n := range t.nodesByName() {
		m := *n.Machine()
		if m.RemoveSelectors(func(id string) bool { return t.ledger.Selector(id) == nil }) {
			t.emit(&ledger.Event{Kind: ledger.KindNode, Node: n.Name(), Machine: &m})
		}
	}
	t.refresh()
}
