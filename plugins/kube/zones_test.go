package kube_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

func inZone(name string) func(*v1.Node) {
	return func(n *v1.Node) {
		if name != "" {
			n.Labels = map[string]string{v1.LabelTopologyZone: name}
		}
	}
}

// byZone makes a rule count in zones.
func byZone(spec v1alpha1.PlacementRuleSpec) v1alpha1.PlacementRuleSpec {
	spec.TopologyKey = v1.LabelTopologyZone
	return spec
}

func TestRulesByZone(t *testing.T) {
	w := newWorld(t)
	pod := func(app, name string) *v1.Pod { return podOf(name, ownedBy("Deployment", app), labelled("app", app)) }
	w.SetNode(nodeOf("a1", inZone("a")), []*v1.Pod{pod("web", "web-1"), pod("web", "web-2")})
	w.SetNode(nodeOf("a2", inZone("a")), []*v1.Pod{pod("db", "db-1")})
	w.SetNode(nodeOf("b1", inZone("b")), nil)
	w.SetNode(nodeOf("none"), nil)
	why := func(app string, nodes ...string) (list []string) {
		k := w.Check(pod(app, "new"), time.Time{})
		require.NotNil(t, k)
		for _, n := range nodes {
			list = append(list, k.Refusal(n))
		}
		return list
	}
	const unknown = "placement rule r: the node has no label topology.kubernetes.io/zone"

	w.SetRules([]*kube.Rule{rule(t, byZone(v1alpha1.PlacementRuleSpec{PodSet: picks("app", "web"), MaxPerNode: new(int32(2))}))})
	full := "placement rule r: at most 2 of default/Deployment/web in a zone"
	require.Equal(t, []string{full, full, "", unknown}, why("web", "a1", "a2", "b1", "none"))
	require.Empty(t, w.Conflicts())
	for _, app := range w.picture().apps {
		require.Zero(t, app.limit, "a limit of a zone is none of a machine")
	}

	// A label that changes: the zone's pods are others, the rule does not hold in b, and nothing is added there.
	w.SetNode(nodeOf("b1", inZone("b")), []*v1.Pod{pod("web", "web-3")})
	w.SetNode(nodeOf("a1", inZone("b")), []*v1.Pod{pod("web", "web-1"), pod("web", "web-2")})
	require.Equal(t, []string{full, "", full}, why("web", "a1", "a2", "b1"))
	require.Equal(t, map[string]int{"r": 1}, w.Conflicts())
	_, text := w.Conflict(func() *v1.Pod { p := pod("web", "web-4"); p.Spec.NodeName = "b1"; return p }())
	require.Equal(t, "at most 2 of default/Deployment/web in a zone", text)
	w.SetNode(nodeOf("a1", inZone("a")), []*v1.Pod{pod("web", "web-1"), pod("web", "web-2")})
	w.SetNode(nodeOf("b1", inZone("b")), nil)

	w.SetRules([]*kube.Rule{rule(t, byZone(v1alpha1.PlacementRuleSpec{PodSet: picks("app", "web"), SpreadMin: new(int32(2))}))})
	narrow := "placement rule r: default/Deployment/web stands in 1 zones and has to stand on 2 before two share one"
	require.Equal(t, []string{narrow, narrow, "", unknown}, why("web", "a1", "a2", "b1", "none"))

	w.SetRules([]*kube.Rule{rule(t, byZone(v1alpha1.PlacementRuleSpec{
		PodSet: picks("app", "web"), Excludes: []v1alpha1.Exclusion{{PodSet: picks("app", "db")}, {PodSet: picks("app", "job"), Max: 1}},
	}))})
	excludes := "placement rule r: default/Deployment/web excludes default/Deployment/db in a zone"
	require.Equal(t, []string{excludes, excludes, "", ""}, why("web", "a1", "a2", "b1", "none"))
	require.Equal(t, []string{excludes, excludes, "", ""}, why("db", "a1", "a2", "b1", "none"))
	require.Equal(t, []string{"", "", "", ""}, why("job", "a1", "a2", "b1", "none"))
	require.Empty(t, w.picture().rules)

	// Preemption: without the pods in the way, also those on other nodes of the zone.
	k := w.Check(pod("web", "new"), time.Time{})
	less := k.Clone()
	w.Adjust(less, pod("db", "db-1"), "a2", -1)
	require.Empty(t, less.Refusal("a1"))
	require.Equal(t, excludes, k.Refusal("a1"))
}

// A rule with afterMinutes no longer binds a pod that has waited so long, and others do.
func TestRulesGiveWay(t *testing.T) {
	w := newWorld(t)
	born := time.Unix(1e9, 0)
	pod := func(name string) *v1.Pod {
		return podOf(name, ownedBy("Deployment", "web"), labelled("app", "web"), func(p *v1.Pod) { p.CreationTimestamp = metav1.NewTime(born) })
	}
	w.SetNode(nodeOf("a"), []*v1.Pod{pod("web-1")})
	w.SetNode(nodeOf("b"), []*v1.Pod{pod("web-2"), pod("web-3")})
	soft := func(most, minutes int32) *kube.Rule {
		r, err := kube.NewRule(&v1alpha1.PlacementRule{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("r", most)}, Spec: v1alpha1.PlacementRuleSpec{
			PodSet: picks("app", "web"), MaxPerNode: new(most), AfterMinutes: new(minutes),
		}})
		require.NoError(t, err)
		return r
	}
	w.SetRules([]*kube.Rule{soft(1, 5), rule(t, v1alpha1.PlacementRuleSpec{PodSet: picks("app", "web"), MaxPerNode: new(int32(2))})})
	one, two := "placement rule r1: at most 1 of default/Deployment/web on a node", "placement rule r: at most 2 of default/Deployment/web on a node"
	for minutes, want := range map[int][3]string{0: {one, one, ""}, 4: {one, one, ""}, 5: {"", two, one}, 60: {"", two, one}} {
		now := born.Add(time.Duration(minutes) * time.Minute)
		k := w.Check(pod("new"), now)
		require.Equal(t, want, [3]string{k.Refusal("a"), k.Refusal("b"), w.ExpiredRule(pod("new"), "a", now)}, minutes)
		require.Empty(t, w.ExpiredRule(pod("new"), "b", now))
		at, ok := k.Expiry(pod("new"))
		require.Equal(t, minutes < 5, ok)
		if ok {
			require.Equal(t, born.Add(5*time.Minute), at)
		}
	}
	w.SetRules([]*kube.Rule{soft(1, 5)})
	k := w.Check(pod("new"), born.Add(time.Hour))
	require.Equal(t, [2]string{"", one}, [2]string{k.Refusal("b"), w.ExpiredRule(pod("new"), "b", born.Add(time.Hour))})
}

// plainRules is what rules forbid, counted from the pods that stand.
type plainRules struct {
	rules []v1alpha1.PlacementRuleSpec
	on    map[string][]*v1.Pod         // by node
	zones map[string]string            // by node
	kept  func(app, zone string) int32 // pods that room is reserved for
}

// reservedIn counts the pods of an app that room is reserved for in a zone.
func (w *world) reservedIn(zones map[string]string) func(app, zone string) int32 {
	return func(app, zone string) (pods int32) {
		for n := range w.ledger.ReservedNodes() {
			for _, r := range n.Reservations() {
				if zones[n.Name()] == zone && strings.HasSuffix(r.App.Group().Name(), "/"+app) {
					pods += r.Pods
				}
			}
		}
		return pods
	}
}

func (m *plainRules) picks(s v1alpha1.PodSet, app string) bool {
	return s.Selector.MatchLabels["app"] == "" || s.Selector.MatchLabels["app"] == app
}

// allows reports whether a pod of an app may come to a node.
func (m *plainRules) allows(app, to string) bool {
	for _, r := range m.rules {
		domain := func(node string) string { return node }
		if r.TopologyKey == v1.LabelTopologyZone {
			domain = func(node string) string { return m.zones[node] }
		}
		count := map[string]int32{} // of each app in the domain
		where := map[string]bool{}  // domains of the app
		for node, pods := range m.on {
			for _, p := range pods {
				if domain(node) == domain(to) && domain(to) != "" {
					count[p.Labels["app"]]++
				}
				if p.Labels["app"] == app && domain(node) != "" {
					where[domain(node)] = true
				}
			}
		}
		picked := m.picks(r.PodSet, app)
		if picked && (r.MaxPerNode != nil || r.SpreadMin != nil) && domain(to) == "" ||
			picked && r.MaxPerNode != nil && count[app]+1 > *r.MaxPerNode ||
			picked && r.SpreadMin != nil && count[app] > 0 && int32(len(where)) < *r.SpreadMin {
			return false
		}
		if r.TopologyKey == v1.LabelTopologyZone && domain(to) != "" { // others come, too
			for _, other := range []string{"web", "db", "job", "api"} {
				if n := m.kept(other, domain(to)); n > 0 && other != app {
					count[other] += n
				}
			}
		}
		for _, e := range r.Excludes {
			for other, n := range count {
				if other != app && (picked && m.picks(e.PodSet, other) && n > e.Max || m.picks(e.PodSet, app) && m.picks(r.PodSet, other) && count[app]+1 > e.Max) {
					return false
				}
			}
		}
	}
	return true
}

// A check opens exactly the nodes that rules by node and by zone leave open, however pods come, go
// and move, rules and zones change, and whatever is reserved for chains of moves.
func TestChecksAgreeWithPlainRules(t *testing.T) {
	apps, zones := []string{"web", "db", "job", "api"}, []string{"a", "b", "c", ""}
	asked, refused, byZones := 0, 0, 0
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 18))
		w := newWorld(t)
		m := &plainRules{on: map[string][]*v1.Pod{}, zones: map[string]string{}}
		m.kept = w.reservedIn(m.zones)
		var nodes []string
		set := func(n string) { w.SetNode(nodeOf(n, inZone(m.zones[n])), m.on[n]) }
		for i := range 8 {
			n := fmt.Sprint("n", i)
			nodes, m.zones[n] = append(nodes, n), zones[rng.IntN(4)]
			set(n)
		}
		some := func() v1alpha1.PodSet {
			if rng.IntN(4) == 0 {
				return picks()
			}
			return picks("app", apps[rng.IntN(4)])
		}
		for step := range 300 {
			n := nodes[rng.IntN(8)]
			switch rng.IntN(12) {
			case 0:
				if step%40 > 3 {
					continue
				}
				m.rules = nil
				var list []*kube.Rule
				for range 1 + rng.IntN(3) {
					s := v1alpha1.PlacementRuleSpec{PodSet: some(), TopologyKey: []string{"", v1.LabelHostname, v1.LabelTopologyZone, v1.LabelTopologyZone}[rng.IntN(4)]}
					switch rng.IntN(3) {
					case 0:
						s.MaxPerNode = new(int32(1 + rng.IntN(4)))
					case 1:
						s.SpreadMin = new(int32(1 + rng.IntN(4)))
					default:
						s.Excludes = []v1alpha1.Exclusion{{PodSet: some(), Max: int32(rng.IntN(3))}}
					}
					m.rules, list = append(m.rules, s), append(list, rule(t, s))
				}
				w.SetRules(list)
			case 1:
				m.zones[n] = zones[rng.IntN(4)]
				set(n)
			case 2, 3, 4:
				if len(m.on[n]) > 0 {
					m.on[n] = slices.Delete(slices.Clone(m.on[n]), 0, 1)
					set(n)
				}
			case 5:
				p := podOf("chain", ownedBy("Deployment", "web"), labelled("app", "web"), requests("cpu", "1m"))
				c := kube.NewChain("test", 1e9, []kube.Place{{Pod: p, Node: n}}, "")
				w.Reserve(c, float64(step))
				defer w.Release(c, 1e9)
			default:
				app := apps[rng.IntN(4)]
				p := podOf(fmt.Sprint(app, "-", seed, "-", step), ownedBy("Deployment", app), labelled("app", app), requests("cpu", "1m"))
				k := w.Check(p, time.Time{})
				for _, n := range nodes {
					asked++
					open := k == nil || !strings.HasPrefix(k.Refusal(n), "placement rule ") // but perhaps reserved
					require.Equal(t, m.allows(app, n), open, "seed %d step %d: %s on %s: %v", seed, step, app, n, m.rules)
					if !open {
						refused++
						if !(&plainRules{rules: slices.DeleteFunc(slices.Clone(m.rules), func(r v1alpha1.PlacementRuleSpec) bool { return r.TopologyKey != v1.LabelTopologyZone }), on: m.on, zones: m.zones, kept: m.kept}).allows(app, n) {
							byZones++
						}
					}
				}
				if k == nil || k.Refusal(n) == "" {
					m.on[n] = append(slices.Clone(m.on[n]), at(p, n))
					set(n)
				}
			}
		}
	}
	t.Logf("%d asked, %d refused, %d by a zone", asked, refused, byZones)
	require.Greater(t, byZones, 1000)
}

func at(p *v1.Pod, node string) *v1.Pod {
	p = p.DeepCopy()
	p.Spec.NodeName = node
	return p
}

// The hard limits by zone of a pod itself, and those of PlacementRules, are part of its app.
func TestLimitsByZone(t *testing.T) {
	apart := func(app string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
				prefers(1, v1.LabelTopologyZone, app).PodAffinityTerm,
			}}}
		}
	}
	even := func(change func(*v1.TopologySpreadConstraint)) func(*v1.Pod) {
		return func(p *v1.Pod) {
			spreads(v1.DoNotSchedule, v1.LabelTopologyZone, "web")(p)
			change(&p.Spec.TopologySpreadConstraints[0])
		}
	}
	zoned := v1alpha1.PlacementRuleSpec{PodSet: picks("app", "web"), TopologyKey: v1.LabelTopologyZone, MaxPerNode: new(int32(4)), SpreadMin: new(int32(2))}
	for _, tt := range []struct {
		name   string
		change func(*v1.Pod)
		rules  []v1alpha1.PlacementRuleSpec
		want   [3]int32 // limit, spread, skew
	}{
		{"nothing", func(*v1.Pod) {}, nil, [3]int32{}},
		{"an even spread", spreads(v1.DoNotSchedule, v1.LabelTopologyZone, "web"), nil, [3]int32{0, 0, 1}},
		{"of other pods", spreads(v1.DoNotSchedule, v1.LabelTopologyZone, "db"), nil, [3]int32{}},
		{"over hosts", spreads(v1.DoNotSchedule, v1.LabelHostname, "web"), nil, [3]int32{}},
		{"of one revision", even(func(c *v1.TopologySpreadConstraint) { c.MatchLabelKeys = []string{"pod-template-hash"} }), nil, [3]int32{}},
		{"many domains: a limit", even(func(c *v1.TopologySpreadConstraint) { c.MaxSkew, c.MinDomains = 3, new(int32(1000000)) }), nil, [3]int32{3}},
		{"anti-affinity", apart("web"), nil, [3]int32{1}},
		{"a rule", func(*v1.Pod) {}, []v1alpha1.PlacementRuleSpec{zoned}, [3]int32{4, 2}},
		{"a rule and an even spread", spreads(v1.DoNotSchedule, v1.LabelTopologyZone, "web"), []v1alpha1.PlacementRuleSpec{zoned}, [3]int32{4, 2, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			var list []*kube.Rule
			for _, r := range tt.rules {
				list = append(list, rule(t, r))
			}
			w.SetRules(list)
			w.SetNode(nodeOf("a", inZone("x")), []*v1.Pod{podOf("web-1", ownedBy("Deployment", "web"), labelled("app", "web"), tt.change)})
			spec := w.ledger.Group(webGroup).Apps()[0].Spec()
			require.Equal(t, tt.want, [3]int32{spec.MaxPerZone, spec.ZoneSpreadMin, spec.ZoneSkew})
			require.Zero(t, spec.MaxPerMachine)
		})
	}
	w := newWorld(t)
	w.SetNode(nodeOf("a", inZone("x")), []*v1.Pod{podOf("db-1", ownedBy("Deployment", "db"), labelled("app", "db"))})
	w.events = nil
	w.Arrive(podOf("web-1", ownedBy("Deployment", "web"), labelled("app", "web"), apart("db")))
	var rules []ledger.Rule
	for _, e := range w.events {
		rules = append(rules, e.Rules...)
	}
	require.Equal(t, []ledger.Rule{{App: webGroup, Other: "default/Deployment/db", Scope: ledger.ZoneScope}}, rules)
}
