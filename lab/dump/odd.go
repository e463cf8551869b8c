package dump

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// addWaiting adds the pods that wait, each for a reason of its own, ended ones, and pods of Jobs.
func (c *cluster) addWaiting() {
	waits := func(w *workload, why string) {
		w.kind, w.budget, w.replicas = cmp.Or(w.kind, "Deployment"), -1, 0
		c.create(w)
		for _, s := range []string{c.suffix(5)} {
			p := c.pod(w.namespace, w.name+"-"+w.hash+"-"+s, w.replicaSet.Labels, "apps/v1", "ReplicaSet", &w.replicaSet.ObjectMeta, c.spec(w))
			p.Status.Phase = v1.PodPending
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: why}}
			c.pods = append(c.pods, p)
		}
		c.declare(w, 1)
		c.workloads = append(c.workloads, w)
	}
	of := fmt.Sprintf("0/%d nodes are available: ", len(c.nodes))
	waits(&workload{namespace: "data", name: "backfill", cpu: 30_000, mem: 200_000}, of+"Insufficient cpu, Insufficient memory.")
	waits(&workload{namespace: "ml", name: "trainer", cpu: 2000, mem: 8192, pool: "gpu", extra: withGPU}, of+"Insufficient nvidia.com/gpu.")
	waits(&workload{namespace: "search", name: "reindex", cpu: 500, mem: 1024, pool: "arm"}, of+"node(s) didn't match Pod's node affinity/selector.")
	if c.Minor >= 30 {
		gated := c.pod("data", "queued-"+c.suffix(5), map[string]string{"app": "queued"}, "", "", nil, v1.PodSpec{
			Containers: []v1.Container{container("main", 500, 512)}, SchedulingGates: []v1.PodSchedulingGate{{Name: "example.com/quota"}},
		})
		gated.Status.Phase = v1.PodPending
		c.pods = append(c.pods, gated)
	}
	job := &batchv1.Job{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}, ObjectMeta: c.meta("data", "nightly-29400870", 800)}
	cron := &batchv1.CronJob{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "CronJob"}, ObjectMeta: c.meta("data", "nightly", 60_000)}
	spec := v1.PodSpec{Containers: []v1.Container{container("main", 1000, 2048)}, RestartPolicy: v1.RestartPolicyNever}
	cron.Spec = batchv1.CronJobSpec{Schedule: "30 3 * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: v1.PodTemplateSpec{Spec: spec}}}}
	job.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "CronJob", Name: cron.Name, UID: cron.UID, Controller: new(true)}}
	job.Spec.Template.Spec = spec
	job.Status.CompletionTime = new(metav1.NewTime(Now.Add(-10 * time.Hour)))
	done := c.pod("data", job.Name+"-"+c.suffix(5), map[string]string{"job-name": job.Name}, "batch/v1", "Job", &job.ObjectMeta, spec)
	done.Spec.NodeName, done.Status.Phase = c.nodes[0].Name, v1.PodSucceeded
	c.pods = append(c.pods, done)
	c.others = append(c.others, job, cron)
	for _, m := range c.nodes { // started by hand
		if m.pool.name == "general" && m.cpu > 600 && m.mem > 600 && m.slots > 0 {
			c.put(c.pod("platform", "debug", map[string]string{"run": "debug"}, "", "", nil, v1.PodSpec{Containers: []v1.Container{container("main", 500, 512)}}), m, 500, 512)
			break
		}
	}
}

// addBudgets adds disruption budgets and autoscalers, of the version that kubectl shows.
func (c *cluster) addBudgets() {
	for _, w := range c.workloads {
		selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.name}}
		if w.budget >= 0 && len(w.pods) > 0 {
			b := &policyv1.PodDisruptionBudget{TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}, ObjectMeta: c.meta(w.namespace, w.name, 2000)}
			b.Spec = policyv1.PodDisruptionBudgetSpec{Selector: selector, MaxUnavailable: atMost(w.budget)}
			n := int32(len(w.pods))
			b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: int32(w.budget), ExpectedPods: n, CurrentHealthy: n, DesiredHealthy: n - int32(w.budget)}
			c.others = append(c.others, b)
		}
		if w.kind == "Deployment" && w.replicas >= 4 && c.chance(.5) {
			h := &autoscalingv2.HorizontalPodAutoscaler{TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler"}, ObjectMeta: c.meta(w.namespace, w.name, 2000)}
			h.Spec = autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: w.name}, MinReplicas: new(int32(2)), MaxReplicas: int32(w.replicas * 2),
			}
			c.others = append(c.others, h)
		}
	}
}

// addUse adds the measurements of metrics-server. A node that is not reached has none.
func (c *cluster) addUse() {
	at, window := metav1.NewTime(Now.Add(-20*time.Second)), metav1.Duration{Duration: 30 * time.Second}
	busy := map[string]float64{}
	for _, w := range c.workloads {
		busy[w.namespace+"/"+w.name] = w.busy
	}
	sums := map[string][2]int64{}
	lost := map[string]bool{}
	for _, m := range c.nodes {
		lost[m.Name] = m.Status.Conditions[0].Status != v1.ConditionTrue
	}
	for _, p := range c.pods {
		if p.Spec.NodeName == "" || p.Status.Phase != v1.PodRunning || lost[p.Spec.NodeName] {
			continue
		}
		u := &metricsv1beta1.PodMetrics{TypeMeta: metav1.TypeMeta{APIVersion: "metrics.k8s.io/v1beta1", Kind: "PodMetrics"}, ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, CreationTimestamp: at, Labels: p.Labels}, Timestamp: at, Window: window}
		share := cmp.Or(busy[p.Namespace+"/"+p.Labels["app"]], .2)
		for i := range p.Spec.Containers {
			k := &p.Spec.Containers[i]
			cpu, mem := k.Resources.Requests.Cpu().MilliValue(), k.Resources.Requests.Memory().Value()
			if cpu == 0 {
				cpu, mem = 60, 100<<20
			}
			cpu = int64(float64(cpu) * 1e6 * share * math.Exp(.35*c.rng.NormFloat64()))
			mem = min(mem, int64(float64(mem)*min(.95, share+.15)*math.Exp(.1*c.rng.NormFloat64())))
			u.Containers = append(u.Containers, metricsv1beta1.ContainerMetrics{Name: k.Name, Usage: v1.ResourceList{
				"cpu": resource.MustParse(fmt.Sprint(cpu, "n")), "memory": resource.MustParse(fmt.Sprint(mem>>10, "Ki")),
			}})
			sum := sums[p.Spec.NodeName]
			sums[p.Spec.NodeName] = [2]int64{sum[0] + cpu, sum[1] + mem>>10}
		}
		c.others = append(c.others, u)
	}
	for _, m := range c.nodes {
		if lost[m.Name] {
			continue
		}
		sum := sums[m.Name]
		c.others = append(c.others, &metricsv1beta1.NodeMetrics{
			TypeMeta: metav1.TypeMeta{APIVersion: "metrics.k8s.io/v1beta1", Kind: "NodeMetrics"}, ObjectMeta: metav1.ObjectMeta{Name: m.Name, CreationTimestamp: at}, Timestamp: at, Window: window,
			Usage: v1.ResourceList{"cpu": resource.MustParse(fmt.Sprint(sum[0]+120e6, "n")), "memory": resource.MustParse(fmt.Sprint(sum[1]+600<<10, "Ki"))},
		})
	}
}

// objects returns the objects as kubectl lists them: by kind, then by namespace and name.
func (c *cluster) objects() (list []runtime.Object) {
	for _, m := range c.nodes {
		list = append(list, m.Node)
	}
	for _, p := range c.pods {
		list = append(list, p)
	}
	for _, w := range c.workloads {
		if list = append(list, w.set); w.replicaSet != nil {
			list = append(list, w.replicaSet)
		}
	}
	list = append(list, c.others...)
	order := []string{"Node", "Pod", "Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "Job", "CronJob", "HorizontalPodAutoscaler", "PodDisruptionBudget", "PodMetrics", "NodeMetrics"}
	kindOf := func(o runtime.Object) string { return o.GetObjectKind().GroupVersionKind().Kind }
	nameOf := func(o runtime.Object) string {
		m, err := meta.Accessor(o)
		if err != nil {
			panic(err)
		}
		return m.GetNamespace() + "/" + m.GetName()
	}
	list = slices.DeleteFunc(list, func(o runtime.Object) bool { return slices.Contains(c.Without, kindOf(o)) })
	slices.SortStableFunc(list, func(a, b runtime.Object) int {
		return cmp.Or(cmp.Compare(slices.Index(order, kindOf(a)), slices.Index(order, kindOf(b))), strings.Compare(nameOf(a), nameOf(b)))
	})
	return list
}
