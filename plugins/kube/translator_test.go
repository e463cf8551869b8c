package kube_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
	"github.com/sigma-scheduler/sigma/plugins/podspec/podtest"
)

// A world is a cluster that a Translator enters in a ledger.
type world struct {
	*kube.Translator
	t      *testing.T
	ledger *ledger.Ledger
	events []*ledger.Event // since the last call of emitted
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, ledger: ledger.New()}
	w.book(&ledger.Event{Kind: ledger.KindStart, Start: &ledger.Start{Version: ledger.Version, Fleet: "fixed", Units: podspec.Units}})
	w.events = nil
	w.Translator = kube.NewTranslator("", w.ledger, w.book)
	return w
}

func (w *world) book(e *ledger.Event) {
	w.t.Helper()
	require.NoError(w.t, w.ledger.Apply(e), "%+v", e)
	w.events = append(w.events, e)
}

// emitted returns the events since its last call, in short.
func (w *world) emitted() []string {
	var list []string
	for _, e := range w.events {
		s := string(e.Kind)
		for _, name := range []string{e.Pod, e.App, e.Node} {
			if name != "" {
				s += " " + name
			}
		}
		list = append(list, s)
	}
	w.events = nil
	return list
}

// app is an app as the ledger's columns have it.
type app struct {
	group         string
	demand        map[string]int64
	limit, spread int32
	nodes         string // that it may use
}

// picture is all that decisions depend on, by name, without apps that have no pods
// and what is there because of them only: rules and dimensions.
type picture struct {
	free, capacity map[string]map[string]int64
	cost           map[string]float64
	pods           map[string]map[string]int32
	apps           map[string]app
	rules          map[string]bool
}

func (w *world) picture() picture {
	s := w.ledger.Columns()
	inst := s.Instance()
	p := picture{
		free: map[string]map[string]int64{}, capacity: map[string]map[string]int64{}, cost: map[string]float64{},
		pods: map[string]map[string]int32{}, apps: map[string]app{}, rules: map[string]bool{},
	}
	used := map[int]bool{0: true, 1: true, 2: true}
	for i, a := range inst.Apps {
		for d, n := range a.Demand {
			used[d] = used[d] || n > 0 && s.Alive()[i] > 0
		}
	}
	named := func(list []int64) map[string]int64 {
		m := map[string]int64{}
		for d, n := range list {
			if n != 0 && used[d] {
				m[inst.Dimensions[d].Name] = n
			}
		}
		return m
	}
	alive := map[int32]bool{} // groups
	for m := range int32(s.Size()) {
		name := w.ledger.NodeName(m)
		free := make([]int64, len(inst.Dimensions))
		for d := range free {
			free[d] = s.Free(d)[m]
		}
		p.free[name], p.capacity[name] = named(free), named(s.Capacity(m))
		p.cost[name] = s.Kinds()[s.KindOf(m)].Cost
		p.pods[name] = map[string]int32{}
		for _, e := range s.Contents(m) {
			p.pods[name][inst.Apps[e.App].Name] = e.Count
		}
	}
	for i, a := range inst.Apps {
		if s.Alive()[i] == 0 {
			continue
		}
		alive[a.Group] = true
		var nodes []string
		for _, m := range inst.Machines {
			if a.Types == nil || slices.Contains(a.Types, m.Type) {
				nodes = append(nodes, m.Name)
			}
		}
		g := inst.Groups[a.Group]
		p.apps[a.Name] = app{g.Name, named(a.Demand), g.Limit, g.SpreadMin, strings.Join(nodes, " ")}
	}
	for _, r := range inst.Rules {
		if alive[r.A] && alive[r.B] {
			p.rules[fmt.Sprint(inst.Groups[r.A].Name, " not with more than ", r.Max, " of ", inst.Groups[r.B].Name)] = true
		}
	}
	return p
}

func nodeOf(name string, changes ...func(*v1.Node)) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{
		Allocatable: list("cpu", "4", "memory", "8Gi", "pods", "10"),
	}}
	for _, change := range changes {
		change(n)
	}
	return n
}

func web(name string, changes ...func(*v1.Pod)) *v1.Pod {
	return podOf(name, append([]func(*v1.Pod){ownedBy("Deployment", "web"), labelled("app", "web"), requests("cpu", "1")}, changes...)...)
}

const webApp = "default/Deployment/web@cpu=1"

func TestPodsComeMoveResizeAndEnd(t *testing.T) {
	w := newWorld(t)
	a, b := nodeOf("a"), nodeOf("b")
	one := web("web-1")
	require.Equal(t, []*v1.Pod{one}, w.SetNode(a, []*v1.Pod{one}))
	require.Empty(t, w.SetNode(b, nil))
	require.Equal(t, []string{"node a", "app " + webApp, "place default/web-1 " + webApp + " a", "node b"}, w.emitted())
	require.Equal(t, map[string]int64{"cpu": 3000, "memory": 8 << 30, "pods": 9}, w.picture().free["a"])

	same := one.DeepCopy() // an update that changes nothing
	same.Status.Phase = v1.PodRunning
	require.Empty(t, w.SetNode(a, []*v1.Pod{same}))
	require.Empty(t, w.SetNode(a.DeepCopy(), []*v1.Pod{same}))
	require.Empty(t, w.emitted())

	resized := same.DeepCopy()
	resized.Spec.Containers[0].Resources.Requests = list("cpu", "2")
	require.Empty(t, w.SetNode(a, []*v1.Pod{resized}), "it stood there before")
	require.Equal(t, []string{"app default/Deployment/web@cpu=2", "place default/web-1 default/Deployment/web@cpu=2 a"}, w.emitted())
	require.EqualValues(t, 2000, w.picture().free["a"]["cpu"])

	require.Len(t, w.SetNode(b, []*v1.Pod{resized}), 1) // as it moves, two nodes may have it for a moment
	require.Empty(t, w.SetNode(a, nil))
	require.Equal(t, []string{"place default/web-1 default/Deployment/web@cpu=2 b"}, w.emitted())
	require.EqualValues(t, 4000, w.picture().free["a"]["cpu"])

	ended := resized.DeepCopy()
	ended.Status.Phase = v1.PodSucceeded
	w.SetNode(b, []*v1.Pod{ended})
	require.Equal(t, []string{"remove default/web-1"}, w.emitted())
	require.EqualValues(t, 4000, w.picture().free["b"]["cpu"])

	w.SetNode(b, []*v1.Pod{resized})
	w.emitted()
	w.RemoveNode("b")
	w.RemoveNode("never seen")
	require.Equal(t, []string{"remove default/web-1", "forget b"}, w.emitted())
	require.Nil(t, w.ledger.Node("b"))
	require.Equal(t, 1, w.ledger.NodeCount())
}

func TestPodsThatStayTakeCapacity(t *testing.T) {
	w := newWorld(t)
	agent := podOf("agent", ownedBy("DaemonSet", "agent"), requests("cpu", "500m"))
	static := podOf("static", ownedBy("Node", "a"), requests("memory", "1Gi"))
	done := podOf("done", ownedBy("DaemonSet", "agent"), requests("cpu", "1"), func(p *v1.Pod) { p.Status.Phase = v1.PodFailed })
	n := nodeOf("a")
	require.Empty(t, w.SetNode(n, []*v1.Pod{agent, static, done}))
	w.SetNode(nodeOf("b"), nil)
	require.Equal(t, map[string]int64{"cpu": 3500, "memory": 7 << 30, "pods": 8}, w.picture().capacity["a"])
	require.Empty(t, w.picture().pods["a"])

	w.emitted()
	w.SetNode(n, []*v1.Pod{agent, static})
	require.Empty(t, w.emitted())
	w.SetNode(n, []*v1.Pod{static}) // the same object, other pods
	require.Equal(t, []string{"node a"}, w.emitted())
	require.EqualValues(t, 4000, w.picture().capacity["a"]["cpu"])

	// More than there is leaves nothing, and no negative number.
	w.SetNode(n, []*v1.Pod{podOf("hog", ownedBy("DaemonSet", "hog"), requests("cpu", "40", "example.com/gpu", "1"))})
	require.Equal(t, map[string]int64{"memory": 8 << 30, "pods": 9}, w.picture().capacity["a"])
}

func TestNodes(t *testing.T) {
	w := newWorld(t)
	cordon := func(n *v1.Node) { n.Spec.Unschedulable = true }
	priced := func(text string) func(*v1.Node) {
		return func(n *v1.Node) { n.Annotations = map[string]string{kube.CostAnnotation: text} }
	}
	w.SetNode(nodeOf("a", priced("2.5")), nil)
	for i, text := range []string{"", "free", "-1", "0", "NaN", "1e300", "+Inf"} {
		w.SetNode(nodeOf(fmt.Sprint("b", i), priced(text)), nil)
	}
	w.SetNode(nodeOf("c", cordon), []*v1.Pod{web("web-1")})
	p := w.picture()
	require.Equal(t, 2.5, p.cost["a"])
	for i := range 7 {
		require.Equal(t, .16, p.cost[fmt.Sprint("b", i)], "the model's")
	}
	require.NotContains(t, p.free, "c", "cordoned")
	w.SetNode(nodeOf("c"), []*v1.Pod{web("web-1")})
	require.EqualValues(t, 3000, w.picture().free["c"]["cpu"])
}

// A node that refuses only pods without tolerations is another kind of machine
// than one that refuses none.
func TestTaintedNode(t *testing.T) {
	w := newWorld(t)
	taint := func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "gpu", Effect: v1.TaintEffectNoSchedule}} }
	w.SetNode(nodeOf("a"), []*v1.Pod{web("web-1")})
	w.SetNode(nodeOf("b", taint), nil)
	require.Equal(t, "a", w.picture().apps[webApp].nodes)

	tolerates := func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{{Key: "gpu", Operator: v1.TolerationOpExists}} }
	train := podOf("train", tolerates, requests("cpu", "1"))
	w.SetNode(nodeOf("b", taint), []*v1.Pod{train})
	apps := w.picture().apps
	require.Equal(t, "a", apps[webApp].nodes)
	require.Equal(t, "a b", apps[w.EnsureApp(train).Name()].nodes)
}

func TestDecisions(t *testing.T) {
	w := newWorld(t)
	one := web("web-1")
	w.SetNode(nodeOf("a"), nil)
	w.SetNode(nodeOf("b"), nil)
	w.emitted()
	d := &ledger.Decision{Cause: ledger.CausePolicy}
	w.Decide(one, "a", d)
	require.Equal(t, "default/Deployment/web", d.Request)
	require.EqualValues(t, 3000, w.picture().free["a"]["cpu"])

	bound := one.DeepCopy()
	bound.Spec.NodeName = "a"
	require.Empty(t, w.SetNode(nodeOf("a"), []*v1.Pod{bound}), "we decided that")
	w.emitted()
	w.Undo(bound)
	require.Equal(t, []string{"bind-failed default/web-1"}, w.emitted())
	w.Undo(bound) // twice is once
	require.EqualValues(t, 4000, w.picture().free["a"]["cpu"])
	w.Decide(one, "gone", d)
	require.Empty(t, w.emitted())
	w.Decide(one, "b", d)
	w.SetNode(nodeOf("b"), nil) // deleted before it was seen
	require.Equal(t, []string{"decide default/web-1 " + webApp + " b", "remove default/web-1"}, w.emitted())
}

// TestIncrementalIsAtOnce: however a cluster came to be what it is, the ledger's
// state is that of a cluster that was always so.
func TestIncrementalIsAtOnce(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			h := newHistory(seed)
			w := newWorld(t)
			for range 300 {
				h.change(t, w)
				if h.Chance(.05) {
					require.Equal(t, h.atOnce(t), w.picture())
				}
			}
			require.Equal(t, h.atOnce(t), w.picture())
		})
	}
}

// A history changes a cluster at random.
type history struct {
	podtest.Drawer
	nodes  map[string]*v1.Node
	pods   map[string]map[types.UID]*v1.Pod // by node
	rules  []*kube.Rule
	served []string
	made   int
}

func newHistory(seed uint64) *history {
	return &history{Drawer: podtest.Drawer{Rand: rand.New(rand.NewPCG(seed, 5))}, nodes: map[string]*v1.Node{}, pods: map[string]map[types.UID]*v1.Pod{}}
}

// on are the pods of a node, in any order.
func (h *history) on(node string) []*v1.Pod {
	list := slices.Collect(maps.Values(h.pods[node]))
	slices.SortFunc(list, func(a, b *v1.Pod) int { return strings.Compare(a.Name, b.Name) })
	h.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

func (h *history) set(w *world, name string) { w.SetNode(h.nodes[name], h.on(name)) }

// atOnce is the picture of what is there now.
func (h *history) atOnce(t *testing.T) picture {
	w := newWorld(t)
	w.SetRules(h.rules)
	w.SetServed(h.served)
	names := slices.Sorted(maps.Keys(h.nodes))
	h.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names {
		h.set(w, name)
	}
	return w.picture()
}

func (h *history) change(t *testing.T, w *world) {
	names := slices.Sorted(maps.Keys(h.nodes))
	if len(names) == 0 || h.Chance(.05) {
		n := h.Node(h.IntN(20))
		gpus := []string{"0", "2"}[h.IntN(10)/9] // where there are none, a driver serves them, or nobody
		n.Status.Allocatable = list("cpu", "16", "memory", "64Gi", "pods", "110", gpu, gpus)
		n.Spec.Unschedulable = h.Chance(.1)
		if h.pods[n.Name] == nil {
			h.pods[n.Name] = map[types.UID]*v1.Pod{}
		}
		h.nodes[n.Name] = n
		h.set(w, n.Name)
		return
	}
	name := names[h.IntN(len(names))]
	other := names[h.IntN(len(names))]
	here := h.on(name)
	switch {
	case h.Chance(.02):
		delete(h.nodes, name)
		delete(h.pods, name)
		w.RemoveNode(name)
		return
	case h.Chance(.03):
		h.rules = h.someRules(t)
		w.SetRules(h.rules)
		return
	case h.Chance(.04):
		h.served = []string{gpu, "example.com/other"}[:h.IntN(3)]
		w.SetServed(h.served)
		return
	case h.Chance(.05):
		w.Forecast(&kube.Declarations{}, time.Minute)
		return
	case len(here) > 0 && h.Chance(.1): // to another node, in one of two orders
		p := here[0]
		delete(h.pods[name], p.UID)
		h.pods[other][p.UID] = p
		h.set(w, other)
	case len(here) > 0 && h.Chance(.2): // a resize, new labels, or an update of nothing
		p := here[0].DeepCopy()
		p.Spec.Containers[0].Resources.Requests = h.Requests()
		if h.Chance(.5) {
			p.Labels["team"] = podtest.Zones[h.IntN(3)]
		}
		h.pods[name][p.UID] = p
	case h.Chance(.2) && len(here) > 0:
		p := here[0].DeepCopy()
		p.Status.Phase = v1.PodSucceeded
		h.pods[name][p.UID] = p
	case len(here) > 0 && h.Chance(.3):
		delete(h.pods[name], here[0].UID)
	default:
		p := h.newPod()
		h.pods[name][p.UID] = p
	}
	h.set(w, name)
}

// newPod is one of a few apps: of one app pods may differ in size, selector,
// labels and anti-affinity, as they do while a new revision is rolled out.
func (h *history) newPod() *v1.Pod {
	h.made++
	p := podOf(fmt.Sprint("pod-", h.made))
	p.CreationTimestamp = metav1.Unix(int64(1_700_000_000+h.made/2), 0) // two in a second
	app := []string{"web", "db", "cache", "batch"}[h.IntN(4)]
	kind := "Deployment"
	if h.Chance(.1) {
		kind = "DaemonSet"
	}
	ownedBy(kind, app)(p)
	labelled("app", app)(p)
	if h.Chance(.3) {
		labelled("team", podtest.Zones[h.IntN(3)])(p)
	}
	p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: list("cpu", fmt.Sprint(1+h.IntN(2)))}}}
	if h.Chance(.2) {
		p.Spec.Containers[0].Resources.Requests[gpu] = list(gpu, "1")[gpu]
	}
	if h.Chance(.2) {
		h.Selects(p)
	}
	if h.Chance(.2) {
		apart(v1.LabelHostname, "app", []string{"web", "db", "cache", "batch"}[h.IntN(4)])(p)
	}
	return p
}

func (h *history) someRules(t *testing.T) []*kube.Rule {
	var rules []*kube.Rule
	for i := range h.IntN(3) {
		r := &v1alpha1.PlacementRule{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("rule-", i)}}
		if h.Chance(.5) {
			r.Spec.Selector.MatchLabels = map[string]string{"team": podtest.Zones[h.IntN(3)]}
		}
		if h.Chance(.5) {
			r.Spec.MaxPerNode = new(int32(1 + h.IntN(3)))
		}
		if h.Chance(.5) {
			r.Spec.SpreadMin = new(int32(1 + h.IntN(3)))
		}
		if h.Chance(.7) {
			r.Spec.Excludes = []v1alpha1.Exclusion{{
				PodSet: v1alpha1.PodSet{Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}, Max: int32(h.IntN(2)),
			}}
		}
		rule, err := kube.NewRule(r)
		require.NoError(t, err)
		rules = append(rules, rule)
	}
	return rules
}
