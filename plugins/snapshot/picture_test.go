package snapshot

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/kube"
)

func amounts(pairs ...string) v1.ResourceList {
	l := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

// node is a node of 4 cpu, 8Gi and 10 pods.
func node(name string, changes ...func(*v1.Node)) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
	n.Status.Allocatable = amounts("cpu", "4", "memory", "8Gi", "pods", "10")
	for _, change := range changes {
		change(n)
	}
	return n
}

func cordoned(n *v1.Node) { n.Spec.Unschedulable = true }

func tainted(n *v1.Node) {
	n.Spec.Taints = []v1.Taint{{Key: "gpu", Value: "yes", Effect: v1.TaintEffectNoSchedule}}
}

func typed(name string) func(*v1.Node) {
	return func(n *v1.Node) { n.Labels = map[string]string{v1.LabelInstanceTypeStable: name} }
}

// pod is a pod of the Deployment app that asks for cpu; on "" it waits.
func pod(app, name, on, cpu string, changes ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": app},
		OwnerReferences: []metav1.OwnerReference{{Kind: "Deployment", Name: app, Controller: new(true)}},
	}}
	p.Spec.NodeName = on
	p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: amounts("cpu", cpu)}}}
	for _, change := range changes {
		change(p)
	}
	return p
}

func created(second int64) func(*v1.Pod) {
	return func(p *v1.Pod) { p.CreationTimestamp = metav1.Unix(second, 0) }
}

func tolerates(p *v1.Pod) {
	p.Spec.Tolerations = []v1.Toleration{{Key: "gpu", Operator: v1.TolerationOpExists}}
}

func ofDaemonSet(p *v1.Pod) { p.OwnerReferences[0].Kind = "DaemonSet" }

// picture is a cluster of nodes and pods as it would be read.
func picture(nodes []*v1.Node, pods ...*v1.Pod) *Picture {
	p := &Picture{Nodes: slices.Clone(nodes), Pods: pods, Declared: &kube.Declarations{}}
	p.sort()
	return p
}

func rule(t *testing.T, spec v1alpha1.PlacementRuleSpec) *kube.Rule {
	t.Helper()
	r, err := kube.NewRule(&v1alpha1.PlacementRule{ObjectMeta: metav1.ObjectMeta{Name: "rule"}, Spec: spec})
	require.NoError(t, err)
	return r
}

func app(name string) v1alpha1.PodSet {
	return v1alpha1.PodSet{Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}}
}

func deployment(name string, replicas int32, cpu string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	d.Spec.Replicas = &replicas
	d.Spec.Template.Labels = map[string]string{"app": name}
	d.Spec.Template.Spec = pod(name, "x", "", cpu).Spec
	return d
}

// A life changes a cluster at random.
type life struct {
	*rand.Rand
	nodes map[string]*v1.Node
	pods  map[string]*v1.Pod
	made  int
}

func newLife(seed uint64) *life {
	l := &life{rand.New(rand.NewPCG(seed, 9)), map[string]*v1.Node{}, map[string]*v1.Pod{}, 0}
	for range 5 {
		l.addNode()
	}
	return l
}

func (l *life) addNode() {
	l.made++
	n := node(fmt.Sprintf("n%03d", l.made), typed([]string{"small", "large"}[l.IntN(2)]))
	n.Status.Allocatable["cpu"] = resource.MustParse([]string{"8", "15500m"}[l.IntN(2)])
	if l.IntN(3) == 0 {
		tainted(n)
	}
	l.nodes[n.Name] = n
}

func (l *life) addPod() {
	l.made++
	on := ""
	if names := slices.Sorted(maps.Keys(l.nodes)); l.IntN(4) > 0 && len(names) > 0 {
		on = names[l.IntN(len(names))]
	}
	// Pods of a StatefulSet return under the same names.
	name := fmt.Sprintf("p%02d", l.IntN(40))
	if _, ok := l.pods[name]; ok {
		return
	}
	p := pod([]string{"web", "db", "batch"}[l.IntN(3)], name, on, []string{"1", "1500m", "2"}[l.IntN(3)], created(int64(l.made)))
	p.UID = types.UID(fmt.Sprint("uid-", l.made))
	switch l.IntN(6) {
	case 0:
		tolerates(p)
	case 1:
		ofDaemonSet(p)
	}
	l.pods[name] = p
}

// step changes something.
func (l *life) step() {
	pods, nodes := slices.Sorted(maps.Keys(l.pods)), slices.Sorted(maps.Keys(l.nodes))
	var p *v1.Pod
	if len(pods) > 0 {
		p = l.pods[pods[l.IntN(len(pods))]].DeepCopy()
	}
	switch k := l.IntN(12); {
	case k == 0:
		l.addNode()
	case k == 1 && len(nodes) > 2:
		gone := nodes[l.IntN(len(nodes))]
		delete(l.nodes, gone)
		maps.DeleteFunc(l.pods, func(_ string, p *v1.Pod) bool { return p.Spec.NodeName == gone })
	case k == 2 && len(nodes) > 0:
		n := l.nodes[nodes[l.IntN(len(nodes))]].DeepCopy()
		n.Spec.Unschedulable = !n.Spec.Unschedulable
		l.nodes[n.Name] = n
	case k <= 4 && p != nil:
		delete(l.pods, p.Name)
	case k == 5 && p != nil: // a resize
		p.Spec.Containers[0].Resources.Requests = amounts("cpu", "3")
		l.pods[p.Name] = p
	case k == 6 && p != nil && p.Spec.NodeName == "" && len(nodes) > 0:
		p.Spec.NodeName = nodes[l.IntN(len(nodes))]
		l.pods[p.Name] = p
	default:
		l.addPod()
	}
}

func (l *life) picture() *Picture {
	return picture(slices.Collect(maps.Values(l.nodes)), slices.Collect(maps.Values(l.pods))...)
}
