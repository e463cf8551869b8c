package dump

import (
	"fmt"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A workload is a Deployment or a StatefulSet with its pods.
type workload struct {
	namespace, name string
	kind            string
	cpu, mem        int64 // of a pod, in millicores and MiB; 0 = no request
	replicas        int
	pool            string // "" = any without a taint
	spot            bool   // tolerates spot nodes
	apart           bool   // no two on a host
	zones           bool   // hard spread over zones
	volume          bool
	extra           func(*v1.PodSpec)
	busy            float64 // use ÷ request
	budget          int     // pods that may be missing; -1 = no budget
	hash            string
	set             runtime.Object
	replicaSet      *appsv1.ReplicaSet
	pods            []*v1.Pod
}

var (
	teams = []string{"shop", "search", "payments", "media", "orders", "ml", "data", "accounts", "logistics", "platform"}
	parts = []string{"api", "web", "worker", "gateway", "cache", "index", "feed", "mailer", "report", "sync", "router", "catalog", "cart", "pricing", "stock", "audit", "session", "export", "ranker", "images"}
)

var daemons = []struct {
	name     string
	cpu, mem int64
}{{"kube-proxy", 100, 128}, {"cni-node", 50, 96}, {"node-exporter", 50, 64}, {"log-agent", 100, 200}, {"csi-node", 30, 80}}

// addDaemonSets adds a pod of each DaemonSet to each node, and the plugin of the GPU to its node.
func (c *cluster) addDaemonSets() {
	for _, d := range daemons {
		meta := c.meta("kube-system", d.name, 90_000)
		for _, m := range c.nodes {
			c.daemon(d.name, &meta, m, d.cpu, d.mem)
		}
		labels := map[string]string{"app": d.name}
		c.others = append(c.others, &appsv1.DaemonSet{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"}, ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}},
		}})
	}
	meta := c.meta("kube-system", "gpu-device-plugin", 80_000)
	for _, m := range c.nodes {
		if m.gpus > 0 {
			c.daemon("gpu-device-plugin", &meta, m, 50, 64)
		}
	}
}

func (c *cluster) daemon(name string, set *metav1.ObjectMeta, m *machine, cpu, mem int64) {
	p := c.pod("kube-system", name+"-"+c.suffix(5), map[string]string{"app": name}, "apps/v1", "DaemonSet", set, v1.PodSpec{
		Containers:        []v1.Container{container(name, cpu, mem)},
		Tolerations:       []v1.Toleration{{Operator: v1.TolerationOpExists}},
		PriorityClassName: "system-node-critical", HostNetwork: name == "kube-proxy" || name == "node-exporter",
		Volumes: []v1.Volume{{Name: "host", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/var/lib/" + name}}}},
	})
	c.put(p, m, cpu, mem)
}

func container(name string, cpu, mem int64) v1.Container {
	k := v1.Container{Name: name, Image: "registry.example.com/" + name + ":1.0"}
	if cpu+mem > 0 {
		k.Resources.Requests = v1.ResourceList{"cpu": *resource.NewMilliQuantity(cpu, resource.DecimalSI), "memory": resource.MustParse(fmt.Sprint(mem, "Mi"))}
		k.Resources.Limits = v1.ResourceList{"memory": resource.MustParse(fmt.Sprint(mem, "Mi"))}
	}
	return k
}

// pod returns a running pod of a controller, without a node.
func (c *cluster) pod(namespace, name string, labels map[string]string, version, kind string, of *metav1.ObjectMeta, spec v1.PodSpec) *v1.Pod {
	c.born += c.between(1, 40)
	p := &v1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: c.meta(namespace, name, 40_000-c.born%39_000)}
	p.Labels = labels
	if of != nil {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: of.Name, UID: of.UID, Controller: new(true), BlockOwnerDeletion: new(true)}}
	}
	p.Spec = spec
	p.Spec.SchedulerName, p.Spec.ServiceAccountName = "default-scheduler", "default"
	p.Status.Phase = v1.PodRunning
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue}, {Type: v1.PodReady, Status: v1.ConditionTrue}}
	return p
}

// put binds a pod to a node and takes its room.
func (c *cluster) put(p *v1.Pod, m *machine, cpu, mem int64) {
	p.Spec.NodeName = m.Name
	m.cpu, m.mem, m.slots = m.cpu-cpu, m.mem-mem, m.slots-1
	m.on = append(m.on, p)
	c.pods = append(c.pods, p)
}

// addWorkloads adds workloads until the nodes have the pods asked for.
func (c *cluster) addWorkloads() {
	c.workloads = append(c.workloads,
		&workload{namespace: "kube-system", name: "coredns", kind: "Deployment", cpu: 100, mem: 170, replicas: 2, pool: "system", apart: true, busy: .1, budget: 1},
		&workload{namespace: "kube-system", name: "metrics-server", kind: "Deployment", cpu: 100, mem: 200, replicas: 1, pool: "system", busy: .2, budget: -1},
	)
	for total := 0; total < c.Nodes*c.PodsPerNode; {
		w := c.draw()
		c.workloads = append(c.workloads, w)
		total += w.replicas
	}
	if c.Nodes >= 20 { // the holder of the GPU
		c.workloads = append(c.workloads, &workload{namespace: "ml", name: "inference", kind: "Deployment", cpu: 3000, mem: 12000, replicas: 1, pool: "gpu", busy: .7, budget: -1, extra: withGPU})
	}
	for _, w := range c.workloads {
		c.create(w)
	}
}

func withGPU(s *v1.PodSpec) {
	s.Containers[0].Resources.Requests["nvidia.com/gpu"], s.Containers[0].Resources.Limits["nvidia.com/gpu"] = resource.MustParse("1"), resource.MustParse("1")
}

// draw draws a workload. Requests are far above use, as people write them.
func (c *cluster) draw() *workload {
	c.named++
	w := &workload{
		namespace: pick(c, teams), name: fmt.Sprintf("%s-%s", pick(c, parts), c.suffix(2)), kind: "Deployment", replicas: 1 + min(40, int(c.rng.ExpFloat64()*4)),
		cpu: pick(c, []int64{50, 100, 100, 250, 250, 500, 500, 1000, 1000, 2000}), budget: -1, busy: min(.9, .12+c.rng.ExpFloat64()*.18),
	}
	w.mem = w.cpu * pick(c, []int64{1, 2, 2, 4, 4, 8}) * 1024 / 1000
	switch n := c.rng.IntN(20); {
	case n < 3:
		w.kind, w.volume, w.replicas, w.apart, w.budget = "StatefulSet", true, c.between(1, 3), true, 1
		w.pool, w.cpu, w.mem = "db", 1000, 8192
	case n < 5:
		w.pool, w.mem = "compute", w.cpu*3/2
	case n < 8:
		w.spot = true
	case n == 8:
		w.cpu, w.mem = 0, 0
	case n == 9:
		w.extra = func(s *v1.PodSpec) {
			s.Volumes = []v1.Volume{{Name: "tmp", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
		}
	case n == 10:
		w.extra = func(s *v1.PodSpec) { // a sidecar, which Kubernetes 1.28 has as an ordinary container
			sidecar := container("proxy", 50, 64)
			if c.Minor < 29 {
				s.Containers = append(s.Containers, sidecar)
				return
			}
			sidecar.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
			s.InitContainers = append(s.InitContainers, sidecar)
		}
	case n == 11:
		port := int32(8000 + c.named)
		w.apart = true
		w.extra = func(s *v1.PodSpec) { s.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: port}} }
	case n < 15:
		w.zones, w.replicas = true, w.replicas+2
	}
	if w.replicas > 1 && w.budget < 0 && c.chance(.4) {
		w.apart = w.replicas <= 6
		w.budget = pick(c, []int{0, 1, 1, 2})
	}
	return w
}

// create creates the objects of a workload and places its pods, on the emptiest node that takes each, as kube-scheduler
// does by default. Pods that fit nowhere are not created.
func (c *cluster) create(w *workload) {
	age := c.between(2000, 60_000)
	meta := c.meta(w.namespace, w.name, age)
	labels := map[string]string{"app": w.name}
	spec := c.spec(w)
	template := v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	owner, version, kind := &meta, "apps/v1", w.kind
	podLabels := map[string]string{"app": w.name}
	if w.kind == "Deployment" {
		w.hash = c.suffix(9)
		podLabels["pod-template-hash"] = w.hash
		w.replicaSet = &appsv1.ReplicaSet{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"}, ObjectMeta: c.meta(w.namespace, w.name+"-"+w.hash, age-100)}
		w.replicaSet.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: w.name, UID: meta.UID, Controller: new(true)}}
		w.replicaSet.Labels = podLabels
		w.replicaSet.Spec = appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: podLabels}, Template: template}
		owner, kind = &w.replicaSet.ObjectMeta, "ReplicaSet"
		w.set = &appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}}
	} else {
		w.set = &appsv1.StatefulSet{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"}, ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template, ServiceName: w.name}}
	}
	for i := range w.replicas {
		name := fmt.Sprintf("%s-%s-%s", w.name, w.hash, c.suffix(5))
		if w.kind == "StatefulSet" {
			name = fmt.Sprintf("%s-%d", w.name, i)
		}
		p := c.pod(w.namespace, name, podLabels, version, kind, owner, *spec.DeepCopy())
		if w.volume {
			p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data-" + name}}}}
		}
		if m := c.emptiest(w); m != nil {
			c.put(p, m, w.cpu+50*int64(len(p.Spec.InitContainers)+len(p.Spec.Containers)-1), w.mem+64*int64(len(p.Spec.InitContainers)+len(p.Spec.Containers)-1))
			w.pods = append(w.pods, p)
		}
	}
	c.declare(w, len(w.pods))
}

// declare sets the declared replicas.
func (c *cluster) declare(w *workload, n int) {
	w.replicas = n
	switch o := w.set.(type) {
	case *appsv1.Deployment:
		o.Spec.Replicas, w.replicaSet.Spec.Replicas = new(int32(n)), new(int32(n))
		o.Status.Replicas, w.replicaSet.Status.Replicas = int32(n), int32(n)
	case *appsv1.StatefulSet:
		o.Spec.Replicas, o.Status.Replicas = new(int32(n)), int32(n)
	}
}

// spec returns the specification of a workload's pods.
func (c *cluster) spec(w *workload) v1.PodSpec {
	s := v1.PodSpec{Containers: []v1.Container{container("main", w.cpu, w.mem)}, RestartPolicy: v1.RestartPolicyAlways, TerminationGracePeriodSeconds: new(int64(30))}
	labels := &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.name}}
	if w.pool != "" {
		s.NodeSelector = map[string]string{"example.com/pool": w.pool}
		s.Tolerations = append(s.Tolerations, v1.Toleration{Key: "pool", Operator: v1.TolerationOpEqual, Value: w.pool, Effect: v1.TaintEffectNoSchedule})
	}
	switch w.pool {
	case "system":
		s.Tolerations[0] = v1.Toleration{Key: "CriticalAddonsOnly", Operator: v1.TolerationOpExists}
	case "gpu":
		s.Tolerations[0] = v1.Toleration{Key: "nvidia.com/gpu", Operator: v1.TolerationOpExists}
	}
	if w.spot {
		s.Tolerations = append(s.Tolerations, v1.Toleration{Key: "spot", Operator: v1.TolerationOpExists})
	}
	if w.apart {
		s.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{LabelSelector: labels, TopologyKey: v1.LabelHostname}}}}
	}
	if w.zones {
		s.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: labels, NodeTaintsPolicy: new(v1.NodeInclusionPolicyHonor)}}
	}
	if w.extra != nil {
		w.extra(&s)
	}
	return s
}

// emptiest returns the node with the largest free share that may take the next pod of a workload.
func (c *cluster) emptiest(w *workload) (best *machine) {
	count := map[string]int{}
	for _, zone := range regions[c.Cloud].zones {
		count[zone] = 0
	}
	for _, p := range w.pods {
		for _, m := range c.nodes {
			if m.Name == p.Spec.NodeName {
				count[m.Labels[v1.LabelTopologyZone]]++
			}
		}
	}
	least := math.MaxInt
	for _, n := range count {
		least = min(least, n)
	}
	top := -1.0
	for _, m := range c.nodes {
		admitted := m.pool.name == w.pool || w.pool == "" && (m.pool.name == "general" || m.pool.spot && w.spot)
		crowded := w.apart && slices.ContainsFunc(w.pods, func(p *v1.Pod) bool { return p.Spec.NodeName == m.Name })
		skewed := w.zones && count[m.Labels[v1.LabelTopologyZone]] > least
		if !admitted || crowded || skewed || m.cpu < w.cpu+100 || m.mem < w.mem+128 || m.slots < 1 {
			continue
		}
		if free := float64(m.cpu)/1000 + float64(m.mem)/4096 + c.rng.Float64(); free > top {
			best, top = m, free
		}
	}
	return best
}

// thinOut deletes pods of some workloads, as autoscalers do at night and rollouts do, which leaves holes.
func (c *cluster) thinOut() {
	for _, w := range c.workloads {
		if w.kind != "Deployment" || w.zones || len(w.pods) < 4 || !c.chance(.5) {
			continue
		}
		c.rng.Shuffle(len(w.pods), func(i, j int) { w.pods[i], w.pods[j] = w.pods[j], w.pods[i] })
		w.pods = w.pods[:c.between(2, len(w.pods))]
		c.pods = slices.DeleteFunc(c.pods, func(p *v1.Pod) bool {
			return len(p.OwnerReferences) > 0 && p.OwnerReferences[0].UID == w.replicaSet.UID && !slices.Contains(w.pods, p)
		})
		c.declare(w, len(w.pods))
	}
}

// atMost returns the number of pods that a budget lets go, as an API server has it.
func atMost(n int) *intstr.IntOrString { return new(intstr.FromInt32(int32(n))) }
