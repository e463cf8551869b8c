package kube_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/kube"
)

// apart keeps a pod off nodes (or what else has the topology key) with pods that
// have a label.
func apart(topology string, pairs ...string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		if p.Spec.Affinity == nil {
			p.Spec.Affinity = &v1.Affinity{}
		}
		p.Spec.Affinity.PodAntiAffinity = &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			TopologyKey: topology, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{pairs[0]: pairs[1]}},
		}}}
	}
}

func picks(pairs ...string) v1alpha1.PodSet {
	s := v1alpha1.PodSet{Selector: metav1.LabelSelector{MatchLabels: map[string]string{}}}
	for i := 0; i < len(pairs); i += 2 {
		s.Selector.MatchLabels[pairs[i]] = pairs[i+1]
	}
	return s
}

func rule(t *testing.T, spec v1alpha1.PlacementRuleSpec) *kube.Rule {
	t.Helper()
	r, err := kube.NewRule(&v1alpha1.PlacementRule{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: spec})
	require.NoError(t, err)
	return r
}

// shop is a cluster of one node with pods of three apps: web and db of the team a,
// cache of b.
func shop(t *testing.T) *world {
	w := newWorld(t)
	w.SetNode(nodeOf("a"), []*v1.Pod{
		podOf("web-1", ownedBy("Deployment", "web"), labelled("app", "web", "team", "a"), requests("cpu", "1")),
		podOf("web-2", ownedBy("Deployment", "web"), labelled("app", "web", "team", "a"), requests("cpu", "500m")),
		podOf("db-0", ownedBy("StatefulSet", "db"), labelled("app", "db", "team", "a")),
		podOf("cache-1", ownedBy("Deployment", "cache"), labelled("app", "cache", "team", "b"), func(p *v1.Pod) { p.Namespace = "prod" }),
	})
	return w
}

const (
	webGroup   = "default/Deployment/web"
	dbGroup    = "default/StatefulSet/db"
	cacheGroup = "prod/Deployment/cache"
)

// constraints are limit and spread of each group.
func (p *picture) constraints() map[string][2]int32 {
	m := map[string][2]int32{}
	for _, a := range p.apps {
		m[a.group] = [2]int32{a.limit, a.spread}
	}
	return m
}

func TestLimitAndSpread(t *testing.T) {
	w := shop(t)
	p := w.picture()
	require.Equal(t, map[string][2]int32{webGroup: {}, dbGroup: {}, cacheGroup: {}}, p.constraints())

	w.SetRules([]*kube.Rule{
		rule(t, v1alpha1.PlacementRuleSpec{PodSet: picks("team", "a"), MaxPerNode: new(int32(3)), SpreadMin: new(int32(2))}),
		rule(t, v1alpha1.PlacementRuleSpec{PodSet: picks("app", "web"), MaxPerNode: new(int32(2)), SpreadMin: new(int32(5))}),
		rule(t, v1alpha1.PlacementRuleSpec{PodSet: picks("app", "web"), MaxPerNode: new(int32(4))}),
	})
	p = w.picture()
	// Each app of the set by itself; where several rules speak, the strictest.
	require.Equal(t, map[string][2]int32{webGroup: {2, 5}, dbGroup: {3, 2}, cacheGroup: {}}, p.constraints())
	require.Len(t, p.apps, 4, "pods of two sizes are two apps of one group")

	w.SetRules(nil)
	p = w.picture()
	require.Equal(t, map[string][2]int32{webGroup: {}, dbGroup: {}, cacheGroup: {}}, p.constraints())
}

func TestRuleInNamespaces(t *testing.T) {
	w := shop(t)
	set := picks()
	set.Namespaces = []string{"prod", "test"}
	w.SetRules([]*kube.Rule{rule(t, v1alpha1.PlacementRuleSpec{PodSet: set, MaxPerNode: new(int32(1))})})
	p := w.picture()
	require.Equal(t, map[string][2]int32{webGroup: {}, dbGroup: {}, cacheGroup: {1, 0}}, p.constraints())
}

// Excludes hold between different apps; an app does not exclude itself.
func TestExcludes(t *testing.T) {
	w := shop(t)
	w.SetRules([]*kube.Rule{rule(t, v1alpha1.PlacementRuleSpec{
		PodSet:   picks("team", "a"),
		Excludes: []v1alpha1.Exclusion{{PodSet: picks()}, {PodSet: picks("app", "cache"), Max: 2}},
	})})
	require.Equal(t, map[string]bool{
		webGroup + " not with more than 0 of " + dbGroup:    true,
		webGroup + " not with more than 0 of " + cacheGroup: true,
		webGroup + " not with more than 2 of " + cacheGroup: true,
		dbGroup + " not with more than 0 of " + webGroup:    true,
		dbGroup + " not with more than 0 of " + cacheGroup:  true,
		dbGroup + " not with more than 2 of " + cacheGroup:  true,
	}, w.picture().rules)

	// An app that comes later is subject to the rule as well.
	w.SetNode(nodeOf("b"), []*v1.Pod{podOf("late", labelled("team", "a"), ownedBy("Job", "late"))})
	rules := w.picture().rules
	require.Len(t, rules, 12)
	require.Contains(t, rules, "default/Job/late not with more than 0 of "+webGroup)
	require.Contains(t, rules, webGroup+" not with more than 0 of default/Job/late")
}

func TestHostnameAntiAffinity(t *testing.T) {
	tests := []struct {
		name   string
		change func(*v1.Pod)
		limit  int32
		rules  int
	}{
		{"to its own app", apart(v1.LabelHostname, "app", "web"), 1, 0},
		{"to another app", apart(v1.LabelHostname, "app", "db"), 0, 1},
		{"to its team", apart(v1.LabelHostname, "team", "a"), 1, 1},
		{"by zone", apart(v1.LabelTopologyZone, "app", "web"), 0, 0},
		{"to nobody", apart(v1.LabelHostname, "app", "none"), 0, 0},
		{"in another namespace", func(p *v1.Pod) {
			apart(v1.LabelHostname, "app", "cache")(p)
			p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].Namespaces = []string{"prod"}
		}, 0, 1},
		{"in its own namespace only", apart(v1.LabelHostname, "app", "cache"), 0, 0},
		{"anywhere", func(p *v1.Pod) {
			apart(v1.LabelHostname, "app", "cache")(p)
			p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].NamespaceSelector = &metav1.LabelSelector{}
		}, 0, 1},
		{"to pods of its revision only: left to upstream", func(p *v1.Pod) {
			apart(v1.LabelHostname, "app", "web")(p)
			p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].MatchLabelKeys = []string{"pod-template-hash"}
		}, 0, 0},
		{"to no selector", func(p *v1.Pod) {
			apart(v1.LabelHostname, "app", "web")(p)
			p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector = nil
		}, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.SetNode(nodeOf("a"), []*v1.Pod{
				podOf("web-1", ownedBy("Deployment", "web"), labelled("app", "web", "team", "a"), tt.change),
				podOf("db-0", ownedBy("StatefulSet", "db"), labelled("app", "db", "team", "a")),
				podOf("cache-1", ownedBy("Deployment", "cache"), labelled("app", "cache", "team", "b"), func(p *v1.Pod) { p.Namespace = "prod" }),
			})
			p := w.picture()
			require.Equal(t, tt.limit, p.constraints()[webGroup][0])
			require.Len(t, p.rules, tt.rules)
		})
	}
}

// A build whose pods have labels of their own changes nothing for the others, unless a rule
// or a term picks by them.
func TestLabelsOfTheirOwn(t *testing.T) {
	w := shop(t)
	w.SetRules([]*kube.Rule{rule(t, v1alpha1.PlacementRuleSpec{
		PodSet: picks("team", "a"), MaxPerNode: new(int32(3)), Excludes: []v1alpha1.Exclusion{{PodSet: picks("app", "cache")}},
	})})
	pods := []*v1.Pod{podOf("web-1", ownedBy("Deployment", "web"), labelled("app", "web", "team", "a"), requests("cpu", "1"))}
	w.SetNode(nodeOf("a"), pods)
	w.emitted()
	for i := range 3 {
		name := fmt.Sprint("web-", 10+i)
		pods = append(pods, podOf(name, ownedBy("Deployment", "web"), requests("cpu", "1"), created(i),
			labelled("app", "web", "team", "a", "build", name)))
		w.SetNode(nodeOf("a"), pods)
		require.Equal(t, []string{"place default/" + name + " " + webGroup + "@cpu=1 a"}, w.emitted())
	}
	pods = append(pods, podOf("web-20", ownedBy("Deployment", "web"), requests("cpu", "1"), created(9), labelled("app", "cache")))
	w.SetNode(nodeOf("a"), pods)
	require.Contains(t, w.emitted(), "rule")
	p := w.picture()
	require.Empty(t, p.rules, "no pod of the team is left")
}

// created makes a pod so many minutes younger.
func created(minutes int) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 1, 0, minutes, 0, 0, time.UTC))
	}
}

// While a new revision is rolled out, the newest pod defines the constraints, in
// whatever order the pods are seen.
func TestRevisionsDiffer(t *testing.T) {
	w := newWorld(t)
	at := func(second int64) func(*v1.Pod) {
		return func(p *v1.Pod) { p.CreationTimestamp = metav1.Unix(second, 0) }
	}
	older, newer := web("web-1", at(1)), web("web-2", at(2), apart(v1.LabelHostname, "app", "web"))
	a := nodeOf("a")
	limit := func() int32 {
		p := w.picture()
		return p.constraints()[webGroup][0]
	}
	w.SetNode(a, []*v1.Pod{older, newer})
	require.EqualValues(t, 1, limit())
	w.emitted()
	for range 3 { // status updates of both
		older, newer = older.DeepCopy(), newer.DeepCopy()
		w.SetNode(a, []*v1.Pod{newer, older})
	}
	require.Empty(t, w.emitted(), "nothing changed")
	require.EqualValues(t, 1, limit())
	w.SetNode(a, []*v1.Pod{older}) // rolled back
	require.EqualValues(t, 0, limit())
}

func TestNewRuleRefuses(t *testing.T) {
	bad := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	tests := []struct {
		want string
		spec v1alpha1.PlacementRuleSpec
	}{
		{"spec.selector: ", v1alpha1.PlacementRuleSpec{PodSet: v1alpha1.PodSet{Selector: bad}}},
		{"spec.maxPerNode 0: want at least 1", v1alpha1.PlacementRuleSpec{MaxPerNode: new(int32(0))}},
		{"spec.spreadMin -1: want at least 1", v1alpha1.PlacementRuleSpec{SpreadMin: new(int32(-1))}},
		{"spec.excludes[1].max -1: want at least 0", v1alpha1.PlacementRuleSpec{Excludes: []v1alpha1.Exclusion{{}, {Max: -1}}}},
		{"spec.excludes[0].selector: ", v1alpha1.PlacementRuleSpec{Excludes: []v1alpha1.Exclusion{{PodSet: v1alpha1.PodSet{Selector: bad}}}}},
	}
	for _, tt := range tests {
		_, err := kube.NewRule(&v1alpha1.PlacementRule{Spec: tt.spec})
		require.ErrorContains(t, err, tt.want)
	}
}
