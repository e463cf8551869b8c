package podspec_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"

	"github.com/sigma-scheduler/sigma/plugins/podspec"
	"github.com/sigma-scheduler/sigma/plugins/podspec/podtest"
)

// TestSelectorIsTheSchedulers: on random pods and nodes a selector admits the nodes
// that kube-scheduler's filters NodeAffinity and TaintToleration let pass, and two
// pods whose selectors have one name are let through alike.
func TestSelectorIsTheSchedulers(t *testing.T) {
	d := podtest.Drawer{Rand: rand.New(rand.NewPCG(3, 4))}
	affinity, err := nodeaffinity.New(t.Context(), &config.NodeAffinityArgs{}, nil, feature.Features{})
	require.NoError(t, err)
	taints, err := tainttoleration.New(t.Context(), nil, nil, feature.Features{})
	require.NoError(t, err)
	var nodes []*v1.Node
	for i := range 60 {
		nodes = append(nodes, d.Node(i))
	}
	verdicts := map[string]string{} // by selector
	admitted, refused := 0, 0
	for range 2000 {
		pod := podOf("x", d.Selects)
		s := podspec.NewSelector(pod)
		verdict := ""
		for _, node := range nodes {
			info := framework.NewNodeInfo()
			info.SetNode(node)
			want := affinity.(fwk.FilterPlugin).Filter(t.Context(), framework.NewCycleState(), pod, info).IsSuccess() &&
				taints.(fwk.FilterPlugin).Filter(t.Context(), framework.NewCycleState(), pod, info).IsSuccess()
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

func TestDefaultTolerations(t *testing.T) {
	// What the API server adds to every pod makes no selector of its own.
	defaults := podOf("x", func(p *v1.Pod) {
		for _, key := range []string{v1.TaintNodeNotReady, v1.TaintNodeUnreachable} {
			p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{
				Key: key, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: new(int64(300)),
			})
		}
	})
	require.Empty(t, podspec.NewSelector(defaults).ID)
	require.Equal(t, podspec.NewSelector(podOf("x")), podspec.NewSelector(defaults))
}

func TestSelectorNames(t *testing.T) {
	gpu := v1.Toleration{Key: "gpu", Operator: v1.TolerationOpExists}
	team := v1.Toleration{Key: "team", Operator: v1.TolerationOpExists}
	tolerating := func(list ...v1.Toleration) *podspec.Selector {
		return podspec.NewSelector(podOf("x", func(p *v1.Pod) { p.Spec.Tolerations = list }))
	}
	require.Equal(t, tolerating(gpu, team).ID, tolerating(team, gpu).ID)
	require.NotEqual(t, tolerating(gpu).ID, tolerating(team).ID)
	require.NotEqual(t, tolerating(gpu).ID, tolerating(gpu, team).ID)

	wrong := podspec.NewSelector(podOf("x", func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: "Near"}}}},
		}}}
	}))
	require.False(t, wrong.Admits(&v1.Node{}), "what cannot be parsed admits none")
}
