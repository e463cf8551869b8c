package kube_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"

	"github.com/sigma-scheduler/sigma/plugins/kube"
)

// TestSelectorIsTheSchedulers: on random pods and nodes a selector admits the nodes
// that kube-scheduler's filters NodeAffinity and TaintToleration let pass, and two
// pods whose selectors have one name are let through alike.
func TestSelectorIsTheSchedulers(t *testing.T) {
	d := drawer{rand.New(rand.NewPCG(3, 4))}
	affinity, err := nodeaffinity.New(t.Context(), &config.NodeAffinityArgs{}, nil, feature.Features{})
	require.NoError(t, err)
	taints, err := tainttoleration.New(t.Context(), nil, nil, feature.Features{})
	require.NoError(t, err)
	var nodes []*v1.Node
	for i := range 60 {
		nodes = append(nodes, d.node(i))
	}
	verdicts := map[string]string{} // by selector
	admitted, refused := 0, 0
	for range 2000 {
		pod := podOf("x", d.selects)
		s := kube.NewSelector(pod)
		verdict := ""
		for _, node := range nodes {
			info := framework.NewNodeInfo()
			info.SetNode(node)
			want := affinity.(framework.FilterPlugin).Filter(t.Context(), framework.NewCycleState(), pod, info).IsSuccess() &&
				taints.(framework.FilterPlugin).Filter(t.Context(), framework.NewCycleState(), pod, info).IsSuccess()
			require.Equal(t, want, s.Admits(node), "pod %v\nnode %v", pod, node)
			if want {
				admitted++
			} else {
				refused++
			}
			verdict += fmt.Sprint(want, " ")
		}
		if before, ok := verdicts[s.ID]; ok {
			require.Equal(t, before, verdict, s.ID)
		}
		verdicts[s.ID] = verdict
	}
	require.Greater(t, admitted, 10_000)
	require.Greater(t, refused, 10_000)
	require.Less(t, len(verdicts), 1990) // some came twice
}

var (
	zones   = []string{"a", "b", "c"}
	effects = []v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute, v1.TaintEffectPreferNoSchedule}
)

func (d drawer) node(i int) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i), Labels: map[string]string{}}}
	if d.chance(.8) {
		n.Labels["zone"] = zones[d.IntN(3)]
	}
	if d.chance(.5) {
		n.Labels["cores"] = fmt.Sprint(1 << d.IntN(5))
	}
	for _, key := range []string{"gpu", "team"} {
		if d.chance(.3) {
			n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: key, Value: zones[d.IntN(3)], Effect: effects[d.IntN(3)]})
		}
	}
	return n
}

func (d drawer) selects(p *v1.Pod) {
	if d.chance(.3) {
		p.Spec.NodeSelector = map[string]string{"zone": zones[d.IntN(3)]}
	}
	if d.chance(.5) {
		required := &v1.NodeSelector{}
		for range 1 + d.IntN(2) {
			required.NodeSelectorTerms = append(required.NodeSelectorTerms, d.term())
		}
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
	}
	for range d.IntN(3) {
		t := v1.Toleration{Operator: v1.TolerationOpExists}
		if d.chance(.8) {
			t.Key = []string{"gpu", "team"}[d.IntN(2)]
		}
		if t.Key != "" && d.chance(.5) {
			t.Operator, t.Value = v1.TolerationOpEqual, zones[d.IntN(3)]
		}
		if d.chance(.5) {
			t.Effect = effects[d.IntN(2)]
		}
		if t.Effect == v1.TaintEffectNoExecute && d.chance(.5) {
			t.TolerationSeconds = new(int64(d.IntN(100)))
		}
		p.Spec.Tolerations = append(p.Spec.Tolerations, t)
	}
}

func (d drawer) term() (t v1.NodeSelectorTerm) {
	if d.chance(.1) {
		return t // matches nothing
	}
	if d.chance(.2) {
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
			r.Values = zones[:1+d.IntN(2)]
		case v1.NodeSelectorOpGt, v1.NodeSelectorOpLt:
			r.Key, r.Values = "cores", []string{fmt.Sprint(d.IntN(20))}
			if d.chance(.1) {
				r.Values = []string{"many"} // no number: matches nothing
			}
		}
		t.MatchExpressions = append(t.MatchExpressions, r)
	}
	return t
}

// Taints of a node's condition come and go: they are not what kind of machine it is.
func TestConditionsAreNoSelector(t *testing.T) {
	n := &v1.Node{Spec: v1.NodeSpec{Taints: []v1.Taint{{Key: v1.TaintNodeNotReady, Effect: v1.TaintEffectNoExecute}}}}
	require.True(t, kube.NewSelector(podOf("x")).Admits(n))
	n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: "gpu", Effect: v1.TaintEffectNoSchedule})
	require.False(t, kube.NewSelector(podOf("x")).Admits(n))

	// What the API server adds to every pod makes no selector of its own.
	defaults := podOf("x", func(p *v1.Pod) {
		for _, key := range []string{v1.TaintNodeNotReady, v1.TaintNodeUnreachable} {
			p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{
				Key: key, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: new(int64(300)),
			})
		}
	})
	require.Empty(t, kube.NewSelector(defaults).ID)
	require.Equal(t, kube.NewSelector(podOf("x")), kube.NewSelector(defaults))
}

func TestSelectorNames(t *testing.T) {
	gpu := v1.Toleration{Key: "gpu", Operator: v1.TolerationOpExists}
	team := v1.Toleration{Key: "team", Operator: v1.TolerationOpExists}
	tolerating := func(list ...v1.Toleration) *kube.Selector {
		return kube.NewSelector(podOf("x", func(p *v1.Pod) { p.Spec.Tolerations = list }))
	}
	require.Equal(t, tolerating(gpu, team).ID, tolerating(team, gpu).ID)
	require.NotEqual(t, tolerating(gpu).ID, tolerating(team).ID)
	require.NotEqual(t, tolerating(gpu).ID, tolerating(gpu, team).ID)

	wrong := kube.NewSelector(podOf("x", func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: "Near"}}}},
		}}}
	}))
	require.False(t, wrong.Admits(&v1.Node{}), "what cannot be parsed admits none")
}
