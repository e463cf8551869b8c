package defrag_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/defrag"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A cluster is a ledger and what stands in it.
type cluster struct {
	testing.TB
	*kube.Translator
	ledger *ledger.Ledger
	nodes  []*v1.Node
	on     map[string][]*v1.Pod
}

func newCluster(t testing.TB) *cluster {
	c := &cluster{TB: t, ledger: ledger.New(), on: map[string][]*v1.Pod{}}
	require.NoError(t, c.ledger.Apply(&ledger.Event{Kind: ledger.KindStart, Start: &ledger.Start{Version: ledger.Version, Fleet: "open", Units: podspec.Units}}))
	c.Translator = kube.NewTranslator("", c.ledger, func(e *ledger.Event) { require.NoError(t, c.ledger.Apply(e)) })
	return c
}

func quantities(cores string) v1.ResourceList {
	return v1.ResourceList{"cpu": resource.MustParse(cores), "memory": resource.MustParse("1Gi"), "pods": resource.MustParse("1")}
}

func (c *cluster) node(name string, cores int) {
	c.nodes = append(c.nodes, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{
		"cpu": *resource.NewQuantity(int64(cores), resource.DecimalSI), "memory": resource.MustParse("64Gi"), "pods": resource.MustParse("110"),
	}}})
}

// pod is a ready one of a Deployment, on a node unless that is empty.
func (c *cluster) pod(name, workload, cores, node string, changes ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{"app": workload}, OwnerReferences: []metav1.OwnerReference{{Kind: "Deployment", Name: workload, Controller: new(true)}}},
		Spec:       v1.PodSpec{NodeName: node, Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: quantities(cores)}}}},
		Status:     v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}},
	}
	delete(p.Spec.Containers[0].Resources.Requests, "pods")
	for _, change := range changes {
		change(p)
	}
	if node != "" {
		c.on[node] = append(c.on[node], p)
	}
	return p
}

// find looks for room for a pod; all nodes lack room.
func (c *cluster) find(p *v1.Pod, changes ...func(*defrag.Request)) string {
	c.Helper()
	r := defrag.Request{Pod: p, Chain: 8, MinReplicas: 1}
	for _, n := range c.nodes {
		c.SetNode(n, c.on[n.Name])
		r.Nodes = append(r.Nodes, n.Name)
	}
	r.App = c.Arrive(p).Name()
	for _, change := range changes {
		change(&r)
	}
	list, node := defrag.Find(c.ledger, r)
	again, same := defrag.Find(c.ledger, r)
	require.Equal(c, list, again)
	require.Equal(c, node, same)
	if node == "" {
		require.Empty(c, list)
		return ""
	}
	var text []string
	for _, m := range list {
		text = append(text, fmt.Sprint(m.Pod.Name, " ", m.Pod.Spec.NodeName, "→", m.To))
	}
	return strings.Join(append(text, p.Name+" "+node), ", ")
}

func priority(n int32) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.Priority = &n } }

// twoNodes are a with db (2 cores) and log (1.5), and b with 2 of 4 cores in use: large, of 2.5 cores, gets in
// where db is.
func twoNodes(t testing.TB) *cluster {
	c := newCluster(t)
	c.node("a", 4)
	c.node("b", 4)
	c.pod("db-1", "db", "2", "a")
	c.pod("log-1", "log", "1500m", "a", priority(100))
	c.pod("web-1", "web", "2", "b", priority(100))
	return c
}

func TestFind(t *testing.T) {
	grace := func(seconds int64) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
	}
	const moved = "db-1 a→b, large-1 a"
	for _, tt := range []struct {
		name   string
		db     func(*v1.Pod)
		change func(*defrag.Request)
		want   string
	}{
		{"one move", nil, nil, moved},
		{"of equal priority", priority(5), nil, moved},
		{"of higher priority", priority(6), nil, ""},
		{"no controller", func(p *v1.Pod) { p.OwnerReferences = nil }, nil, ""},
		{"not ready", func(p *v1.Pod) { p.Status.Conditions = nil }, nil, ""},
		{"a grace period above the ceiling", grace(901), nil, ""},
		{"a grace period at the ceiling", grace(900), nil, moved},
		{"a grace period above another ceiling", grace(31), func(r *defrag.Request) { r.MaxGrace = 30 * time.Second }, ""},
		{"a grace period below another ceiling", grace(1800), func(r *defrag.Request) { r.MaxGrace = time.Hour }, moved},
		{"of another scheduler", func(p *v1.Pod) { p.Spec.SchedulerName = "other" }, nil, ""},
		{"its binding is under way", func(p *v1.Pod) { p.Spec.NodeName = "" }, nil, ""},
		{"must stay", nil, func(r *defrag.Request) { r.Stays = func(p *v1.Pod) bool { return p.Name == "db-1" } }, ""},
		{"others must stay", nil, func(r *defrag.Request) { r.Stays = func(p *v1.Pod) bool { return p.Name != "db-1" } }, moved},
		{"engaged", nil, func(r *defrag.Request) { r.Claimed = func(g string) bool { return g == "default/Deployment/db" } }, ""},
		{"the pod's workload is engaged", nil, func(r *defrag.Request) { r.Claimed = func(g string) bool { return g == "default/Deployment/large" } }, ""},
		{"too few replicas", nil, func(r *defrag.Request) { r.MinReplicas = 2 }, ""},
		{"no moves allowed", nil, func(r *defrag.Request) { r.Chain = 0 }, ""},
		{"another filter refuses the node", nil, func(r *defrag.Request) { r.Nodes = []string{"b"} }, ""},
		{"a constraint that nobody models", nil, func(r *defrag.Request) { r.Pod.Spec.ResourceClaims = []v1.PodResourceClaim{{}} }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := twoNodes(t)
			if tt.db != nil {
				tt.db(c.on["a"][0])
			}
			large := c.pod("large-1", "large", "2500m", "", priority(5))
			var changes []func(*defrag.Request)
			if tt.change != nil {
				changes = append(changes, tt.change)
			}
			require.Equal(t, tt.want, c.find(large, changes...))
		})
	}
}

// Pods that stand on a node of which something is unknown stay, and none lands there.
func TestFindLeavesNodesAlone(t *testing.T) {
	taint := func(n *v1.Node) {
		n.Spec.Taints = []v1.Taint{{Key: v1.TaintNodeNotReady, Effect: v1.TaintEffectNoSchedule}}
	}
	for _, change := range []func(*v1.Node){taint, func(n *v1.Node) { n.Spec.Unschedulable = true }} {
		for i := range 2 {
			c := twoNodes(t)
			change(c.nodes[i])
			require.Empty(t, c.find(c.pod("large-1", "large", "2500m", "")))
		}
	}
}

// What the ledger says of a workload keeps its pods where they are.
func TestFindLeavesWorkloadsAlone(t *testing.T) {
	const moved = "db-1 a→b, large-1 a"
	spread := func(workload string) func(*cluster) {
		return func(c *cluster) {
			r, err := kube.NewRule(&v1alpha1.PlacementRule{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: v1alpha1.PlacementRuleSpec{
				PodSet: v1alpha1.PodSet{Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": workload}}}, SpreadMin: new(int32(2)),
			}})
			require.NoError(c, err)
			c.SetRules([]*kube.Rule{r})
		}
	}
	for _, tt := range []struct {
		name   string
		change func(*cluster)
		want   string
	}{
		{"as it is", func(*cluster) {}, moved},
		{"it has to spread", spread("db"), ""},
		{"the one that waits has to spread", spread("large"), ""},
		{"another has to spread", spread("web"), moved},
		{"a roll-out changes its size", func(c *cluster) { c.node("c", 1); c.pod("db-2", "db", "1", "c") }, ""},
		{"it is the workload of the one that waits", func(c *cluster) { c.on["a"][0].OwnerReferences[0].Name = "large" }, ""},
		{"another node is overfull", func(c *cluster) { c.node("c", 1); c.pod("x-1", "x", "2", "c") }, moved},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := twoNodes(t)
			tt.change(c)
			require.Equal(t, tt.want, c.find(c.pod("large-1", "large", "2500m", "")))
		})
	}
}

// Room that is reserved is none, and a rule of the ledger keeps a replacement off.
func TestFindHeedsWhatTheLedgerKnows(t *testing.T) {
	c := twoNodes(t)
	c.node("c", 4)
	c.pod("x-1", "x", "2", "c")
	large := c.pod("large-1", "large", "2500m", "", func(p *v1.Pod) { p.Spec.NodeSelector = nil })
	onA := func(r *defrag.Request) { r.Nodes = []string{"a"} }
	first := c.find(large, onA)
	require.Contains(t, []string{"db-1 a→b, large-1 a", "db-1 a→c, large-1 a"}, first)
	to := first[len("db-1 a→"):][:1]
	c.Reserve(kube.NewChain("another", 2000, []kube.Place{{Pod: c.pod("y-1", "y", "1", ""), Node: to}}, ""), 1000)
	other := map[string]string{"b": "c", "c": "b"}[to]
	require.Equal(t, "db-1 a→"+other+", large-1 a", c.find(large, onA))
	c.Reserve(kube.NewChain("a third", 2000, []kube.Place{{Pod: c.pod("z-1", "z", "1", ""), Node: other}}, ""), 1000)
	require.Empty(t, c.find(large, onA))
}

// A chain of several: the pods of random clusters, filled up, make room, and each move is to a
// free place once those before it are done.
func TestFindOnRandomClusters(t *testing.T) {
	found, longest := 0, 0
	for s := range uint64(60) {
		rng := rand.New(rand.NewPCG(s, 301))
		c, free := newCluster(t), map[string]int{}
		for i := range 12 {
			name := fmt.Sprintf("n%02d", i)
			c.node(name, 16)
			free[name] = 16
		}
		for i := range 120 {
			cores, node := 1+rng.IntN(9), fmt.Sprintf("n%02d", rng.IntN(12))
			if free[node] >= cores {
				c.pod(fmt.Sprint("p", i), fmt.Sprint("app", i), fmt.Sprint(cores), node, priority(int32(rng.IntN(2))))
				free[node] -= cores
			}
		}
		most := 0
		for _, f := range free {
			most = max(most, f)
		}
		text := c.find(c.pod("new", "new", fmt.Sprint(most+3), ""))
		if text == "" {
			continue
		}
		found++
		steps := strings.Split(text, ", ")
		longest = max(longest, len(steps)-1)
		workloads, leaves, comes := map[string]bool{}, map[string]bool{}, map[string]int{}
		for _, step := range steps[:len(steps)-1] {
			var name, from, to string
			parts := strings.Fields(step)
			name = parts[0]
			from, to, _ = strings.Cut(parts[1], "→")
			leaves[from] = true
			comes[to]++
			var cores int
			for _, p := range c.on[from] {
				if p.Name == name {
					cores = int(p.Spec.Containers[0].Resources.Requests.Cpu().Value())
					require.False(t, workloads[p.OwnerReferences[0].Name], text)
					workloads[p.OwnerReferences[0].Name] = true
				}
			}
			require.Positive(t, cores)
			free[from], free[to] = free[from]+cores, free[to]-cores
			require.GreaterOrEqual(t, free[to], 0, text)
		}
		opened := strings.Fields(steps[len(steps)-1])[1]
		require.Zero(t, comes[opened], text)
		for node, n := range comes { // all their room is reserved from the start
			require.True(t, n == 1 || !leaves[node], text)
		}
		require.GreaterOrEqual(t, free[opened], most+3, text)
	}
	require.GreaterOrEqual(t, found, 25)
	require.GreaterOrEqual(t, longest, 2)
	t.Logf("%d of 60 get in, the longest chain has %d moves", found, longest)
}

// crowd has nodes of 32 cores, with about 30 pods each.
func crowd(t testing.TB, nodes int) *cluster {
	rng := rand.New(rand.NewPCG(301, 1))
	c := newCluster(t)
	for i := range nodes {
		name := fmt.Sprintf("n%04d", i)
		c.node(name, 32)
		for k := range 30 {
			app := rng.IntN(400)
			c.pod(fmt.Sprintf("p%d-%d", i, k), fmt.Sprint("app", app), fmt.Sprint(500+250*(app%5), "m"), name)
		}
	}
	return c
}

func BenchmarkFind(b *testing.B) {
	c := crowd(b, 1000)
	large := c.pod("large", "large", "4500m", "")
	b.Log(c.find(large))
	var slowest time.Duration
	r := defrag.Request{Pod: large, App: c.Arrive(large).Name(), Chain: 8, MinReplicas: 2}
	for _, n := range c.nodes {
		r.Nodes = append(r.Nodes, n.Name)
	}
	for b.Loop() {
		began := time.Now()
		defrag.Find(c.ledger, r)
		slowest = max(slowest, time.Since(began))
	}
	b.ReportMetric(float64(slowest.Microseconds()), "µs-slowest")
}
