package podtest

import (
	"fmt"
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Drawer draws pods and nodes at random.
type Drawer struct{ *rand.Rand }

// Chance returns true with probability p.
func (d Drawer) Chance(p float64) bool { return d.Float64() < p }

// Zones are the values of the label zone.
var Zones = []string{"a", "b", "c"}

var effects = []v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute, v1.TaintEffectPreferNoSchedule}

// Node draws a node with some zones, cores and taints.
func (d Drawer) Node(i int) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i), Labels: map[string]string{}}}
	if d.Chance(.8) {
		n.Labels["zone"] = Zones[d.IntN(3)]
	}
	if d.Chance(.5) {
		n.Labels["cores"] = fmt.Sprint(1 << d.IntN(5))
	}
	for _, key := range []string{"gpu", "team"} {
		if d.Chance(.3) {
			n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: key, Value: Zones[d.IntN(3)], Effect: effects[d.IntN(3)]})
		}
	}
	return n
}

// Selects adds a node selector, an affinity and tolerations, or some of them, to a pod.
func (d Drawer) Selects(p *v1.Pod) {
	if d.Chance(.3) {
		p.Spec.NodeSelector = map[string]string{"zone": Zones[d.IntN(3)]}
	}
	if d.Chance(.5) {
		required := &v1.NodeSelector{}
		for range 1 + d.IntN(2) {
			required.NodeSelectorTerms = append(required.NodeSelectorTerms, d.term())
		}
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
	}
	for range d.IntN(3) {
		t := v1.Toleration{Operator: v1.TolerationOpExists}
		if d.Chance(.8) {
			t.Key = []string{"gpu", "team"}[d.IntN(2)]
		}
		if t.Key != "" && d.Chance(.5) {
			t.Operator, t.Value = v1.TolerationOpEqual, Zones[d.IntN(3)]
		}
		if d.Chance(.5) {
			t.Effect = effects[d.IntN(2)]
		}
		if t.Effect == v1.TaintEffectNoExecute && d.Chance(.5) {
			t.TolerationSeconds = new(int64(d.IntN(100)))
		}
		p.Spec.Tolerations = append(p.Spec.Tolerations, t)
	}
}

func (d Drawer) term() (t v1.NodeSelectorTerm) {
	if d.Chance(.1) {
		return t // matches nothing
	}
	if d.Chance(.2) {
		t.MatchFields = []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{fmt.Sprint("node-", d.IntN(60))}}}
		return t
	}
	operators := []v1.NodeSelectorOperator{
		v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn, v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist,
		v1.NodeSelectorOpGt, v1.NodeSelectorOpLt,
	}
	for range 1 + d.IntN(2) {
		r := v1.NodeSelectorRequirement{Key: "zone", Operator: operators[d.IntN(6)]}
		switch r.Operator {
		case v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist:
		case v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn:
			r.Values = Zones[:1+d.IntN(2)]
		case v1.NodeSelectorOpGt, v1.NodeSelectorOpLt:
			r.Key, r.Values = "cores", []string{fmt.Sprint(d.IntN(20))}
			if d.Chance(.1) {
				r.Values = []string{"many"} // not a number: matches nothing
			}
		}
		t.MatchExpressions = append(t.MatchExpressions, r)
	}
	return t
}

// Requests draws amounts of all kinds of resources.
func (d Drawer) Requests() v1.ResourceList {
	list := v1.ResourceList{}
	for _, of := range []struct {
		name  v1.ResourceName
		texts []string
	}{
		{"cpu", []string{"0", "1", "100m", "1500m", "0.5", "1u", "2500u", "1k"}},
		{"memory", []string{"0", "1", "128Mi", "1.5Gi", "1G", "123456789"}},
		{"ephemeral-storage", []string{"1Gi", "500M"}},
		{"hugepages-2Mi", []string{"2Mi", "64Mi"}},
		{"example.com/gpu", []string{"1", "4"}},
	} {
		if d.Chance(.5) {
			list[of.name] = resource.MustParse(of.texts[d.IntN(len(of.texts))])
		}
	}
	return list
}
