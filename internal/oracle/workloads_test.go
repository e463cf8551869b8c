package oracle

import (
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// drawCluster draws the cluster of a number. The same seed and number give the same cluster.
func drawCluster(number uint64) *cluster {
	d := newDrawer(seed, number)
	d.namespaces()
	d.nodes()
	var pods []*v1.Pod
	for i := 0; len(pods) < 4*len(d.Nodes); i++ {
		pods = append(pods, d.workload(i)...)
	}
	f := newFilters(d.cluster)
	defer f.close()
	d.place(f, pods)
	d.drift()
	return d.cluster
}

// began is when the first pod was created.
var began = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// A workload makes pods that are alike.
type workload struct {
	kind, namespace, name string
	labels                map[string]string
	replicas              int
}

// workload draws one with its pods.
func (d *drawer) workload(number int) (pods []*v1.Pod) {
	w := &workload{
		namespace: one(d, "default", "default", "shop", "shop", "tenant-a", "tenant-b"), name: fmt.Sprint("app", number), replicas: d.between(1, 6),
		kind: weigh(d, weighted[string]{.55, "ReplicaSet"}, weighted[string]{.15, "StatefulSet"}, weighted[string]{.06, "DaemonSet"},
			weighted[string]{.06, "Job"}, weighted[string]{.05, "Node"}, weighted[string]{.05, ""}, weighted[string]{.04, "Rollout"}, weighted[string]{.04, "ReplicationController"}),
	}
	w.labels = map[string]string{"app": w.name, "tier": one(d, "web", "web", "db", "cache"), "version": one(d, "1", "2")}
	if d.chance(.1) { // several workloads of one app
		w.labels["app"] = "app0"
	}
	if d.chance(.1) {
		delete(w.labels, "app")
	}
	revisions := []*v1.PodTemplateSpec{d.template(w, "v1")}
	if d.chance(.25) { // a roll-out is under way
		next := d.template(w, "v2")
		if d.chance(.6) { // of the same constraints
			next.Spec = *revisions[0].Spec.DeepCopy()
		}
		revisions = append(revisions, next)
	}
	switch w.kind {
	case "DaemonSet", "Node":
		return d.onNodes(w, revisions[0])
	}
	for i := range w.replicas {
		pods = append(pods, d.pod(w, one(d, revisions...), fmt.Sprint(w.name, "-", i), len(pods)+10*number))
	}
	return pods
}

// template draws what the pods of one revision have.
func (d *drawer) template(w *workload, revision string) *v1.PodTemplateSpec {
	p := &v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(w.labels), Annotations: map[string]string{}}}
	p.Labels["pod-template-hash"] = w.name + "-" + revision
	for _, part := range []func(*workload, *v1.PodTemplateSpec){d.containers, d.selects, d.tolerates, d.affinities, d.spreads, d.volumes, d.others} {
		part(w, p)
	}
	return p
}

// pod draws one of a template. A template that the API server refuses loses a part of its constraints.
func (d *drawer) pod(w *workload, of *v1.PodTemplateSpec, name string, age int) *v1.Pod {
	for {
		p := &v1.Pod{ObjectMeta: *of.ObjectMeta.DeepCopy(), Spec: *of.Spec.DeepCopy()}
		p.Namespace, p.Name, p.UID = w.namespace, name, types.UID(w.namespace+"/"+name)
		p.CreationTimestamp = metav1.NewTime(began.Add(time.Duration(age) * time.Minute))
		if w.kind != "" {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: w.kind, Name: ownerName(w, of), UID: types.UID(w.name), Controller: yes, BlockOwnerDeletion: yes}}
		}
		if w.kind == "StatefulSet" {
			p.Labels["statefulset.kubernetes.io/pod-name"] = name
		}
		d.claims(p)
		admitted, err := admit(p)
		if err == nil {
			admitted.Status = *waits.DeepCopy()
			return admitted
		}
		if of.Spec.Affinity == nil && of.Spec.Tolerations == nil && of.Spec.TopologySpreadConstraints == nil && of.Spec.Resources == nil {
			panic("the API server refuses a pod that is drawn: " + err.Error())
		}
		of.Spec.Affinity, of.Spec.Tolerations, of.Spec.TopologySpreadConstraints, of.Spec.Resources = nil, nil, nil, nil
	}
}

// ownerName is that of the ReplicaSet of a revision.
func ownerName(w *workload, of *v1.PodTemplateSpec) string {
	if w.kind == "ReplicaSet" {
		return of.Labels["pod-template-hash"]
	}
	return w.name
}

// onNodes are a DaemonSet's pods, or a static pod on each of some nodes.
func (d *drawer) onNodes(w *workload, of *v1.PodTemplateSpec) (pods []*v1.Pod) {
	of.Spec.Volumes, of.Spec.TopologySpreadConstraints, of.Spec.Affinity, of.Spec.ResourceClaims = nil, nil, nil, nil
	of.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
	for i := range of.Spec.Containers {
		of.Spec.Containers[i].Resources.Requests = requests("50m", "32Mi")
	}
	for i, n := range d.Nodes {
		if d.chance(.3) {
			continue
		}
		one := of.DeepCopy()
		one.Spec.SchedulingGates = nil
		if w.kind == "DaemonSet" {
			one.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
				NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{n.Name}}}}},
			}}}
		} else {
			one.Annotations[v1.MirrorPodAnnotationKey] = "hash"
			one.Spec.NodeName = n.Name
			one.Spec.SchedulerName = ""
		}
		pods = append(pods, d.pod(w, one, fmt.Sprint(w.name, "-", i), i))
	}
	return pods
}

// place gives most pods a node that the filters allow, one after the other, and adds them to the cluster. Some come to nodes that only
// rules among pods forbid: these held no more when the pods came.
func (d *drawer) place(f *filters, pods []*v1.Pod) {
	for _, p := range pods {
		if p.Spec.NodeName != "" && f.ask(p)[p.Spec.NodeName].plugin != "" {
			continue // the kubelet would not start this static pod
		}
		d.Pods = append(d.Pods, p)
		if p.Spec.NodeName == "" && (d.chance(.12) || len(p.Spec.SchedulingGates) > 0) {
			continue
		}
		if p.Spec.NodeName == "" {
			p.Spec.NodeName = d.nodeFor(f, p)
		}
		if p.Spec.NodeName != "" {
			d.runs(p)
			f.add(p)
		}
	}
}

// nodeFor draws a node for a pod; "" = there is none.
func (d *drawer) nodeFor(f *filters, p *v1.Pod) string {
	var may, late []string
	refused := f.ask(p)
	for _, n := range d.Nodes {
		switch why, is := refused[n.Name]; {
		case !is:
			may = append(may, n.Name)
		case why.plugin == "InterPodAffinity" || why.plugin == "PodTopologySpread":
			late = append(late, n.Name) // the filters of room come before
		}
	}
	_, byDriver := p.Spec.Containers[0].Resources.Requests[driven] // of which there is none
	if len(late) > 0 && !byDriver && d.chance(.05) {
		return one(d, late...)
	}
	if len(may) == 0 {
		return ""
	}
	return one(d, may...)
}

// drift changes nodes and namespaces after pods came.
func (d *drawer) drift() {
	for _, n := range d.Nodes {
		switch {
		case d.chance(.03):
			n.Spec.Taints = append(n.Spec.Taints, d.taint())
		case d.chance(.02) && d.features.unready:
			d.condition(n)
		case d.chance(.02) && d.features.cordons && !n.Spec.Unschedulable:
			cordon(n)
		case d.chance(.02) && n.Labels[v1.LabelTopologyZone] != "":
			n.Labels[v1.LabelTopologyZone] = one(d, zones...)
		case d.chance(.02):
			delete(n.Labels, rack)
		}
		n.Spec.Taints = slices.CompactFunc(n.Spec.Taints, func(a, b v1.Taint) bool { return a.MatchTaint(&b) })
	}
	for _, n := range d.Namespaces {
		if d.chance(.05) {
			n.Labels["team"] = one(d, teams...)
		}
	}
	for _, p := range d.Pods {
		if d.chance(.02) {
			p.Labels["version"] = "3"
		}
		if p.Spec.NodeName == "" && d.chance(.05) {
			p.Status.NominatedNodeName = one(d, d.Nodes...).Name
		}
		if p.Spec.NodeName != "" && d.chance(.02) {
			p.DeletionTimestamp = new(metav1.NewTime(began))
			p.DeletionGracePeriodSeconds = new(int64(30))
		}
	}
}
