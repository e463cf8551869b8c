package snapshot

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/kube"
)

// TestFixed: the trace says which pods must not move: what the pods say, and those of
// workloads with few pods.
func TestFixed(t *testing.T) {
	ready := func(p *v1.Pod) {
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
	}
	pinned := func(p *v1.Pod) { p.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "true"} }
	p := picture([]*v1.Node{node("n1"), node("n2")},
		pod("web", "web-1", "n1", "1", ready), pod("web", "web-2", "n2", "1", ready), pod("web", "web-3", "n2", "1", ready, pinned),
		pod("db", "db-1", "n1", "1", ready), pod("db", "db-2", "", "1"),
		pod("new", "new-1", "n1", "1"),
	)
	tr, _ := snap(t, p)
	require.Equal(t, map[string]any{
		"shop/web-3": "its annotation forbids it: karpenter.sh/do-not-disrupt",
		"shop/db-1":  "its workload has 1 of the 2 pods that it should keep",
		"shop/new-1": "it is not ready",
	}, tr.Source["fixed"])

	// What rules by zone bind stays.
	p.Rules = []*kube.Rule{rule(t, v1alpha1.PlacementRuleSpec{
		PodSet: app("db"), TopologyKey: v1.LabelTopologyZone, Excludes: []v1alpha1.Exclusion{{PodSet: app("web")}},
	})}
	tr, _ = snap(t, p)
	require.Equal(t, map[string]any{
		"shop/web-1": "the placement rule rule is about zones",
		"shop/web-2": "the placement rule rule is about zones",
		"shop/web-3": "its annotation forbids it: karpenter.sh/do-not-disrupt",
		"shop/db-1":  "its workload has 1 of the 2 pods that it should keep",
		"shop/new-1": "it is not ready",
	}, tr.Source["fixed"])
	p.Rules = nil

	r := NewRecorder("", noon)
	r.MinReplicas = 1
	require.NoError(t, r.Record(p, noon))
	tr, _, err := r.Trace("snap", "open")
	require.NoError(t, err)
	require.Len(t, tr.Source["fixed"], 2)

	for _, pod := range p.Pods {
		pod.Spec.SchedulerName = map[string]string{"web-1": "sigma", "web-2": "other"}[pod.Name]
	}
	r = NewRecorder("", noon)
	r.MinReplicas, r.Scheduler = 1, "sigma"
	require.NoError(t, r.Record(p, noon))
	tr, _, err = r.Trace("snap", "open")
	require.NoError(t, err)
	require.Equal(t, "another scheduler places it: other", tr.Source["fixed"].(map[string]any)["shop/web-2"])
	require.NotContains(t, tr.Source["fixed"], "shop/web-1")

	for _, pod := range p.Pods {
		pod.Spec.TerminationGracePeriodSeconds = new(int64(1800))
	}
	for _, c := range []struct {
		ceiling time.Duration
		want    any
	}{{0, "its terminationGracePeriodSeconds of 1800 s is above the ceiling of 15m0s"}, {30 * time.Minute, nil}} {
		r = NewRecorder("", noon)
		r.MaxGrace = c.ceiling
		require.NoError(t, r.Record(p, noon))
		tr, _, err = r.Trace("snap", "open")
		require.NoError(t, err)
		require.Equal(t, c.want, tr.Source["fixed"].(map[string]any)["shop/web-1"])
	}
}
