package snapshot

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/history"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// snap is the trace of one picture.
func snap(t *testing.T, p *Picture) (*trace.Trace, []string) {
	t.Helper()
	r := NewRecorder("", noon)
	require.NoError(t, r.Record(p, noon))
	tr, notes, err := r.Trace("snap", "open")
	require.NoError(t, err)
	return tr, notes
}

// files returns the files of a trace.
func files(t *testing.T, tr *trace.Trace) map[string]string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "trace")
	require.NoError(t, tr.Write(dir))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	texts := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		texts[e.Name()] = string(text)
	}
	return texts
}

// A waiting pod that asks for what a driver serves is part of the trace, without that
// dimension.
func TestTraceOfServedResource(t *testing.T) {
	p := picture([]*v1.Node{node("n1")}, pod("train", "train-1", "", "1", func(p *v1.Pod) {
		p.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
	}))
	_, notes := snap(t, p)
	require.Len(t, notes, 1, "it fits no node")
	p.Served = []string{"example.com/gpu"}
	tr, notes := snap(t, p)
	require.Empty(t, notes)
	texts := files(t, tr)
	require.NotContains(t, texts["trace.yaml"], "example.com/gpu")
	require.Contains(t, texts["events.csv"], "0,create,shop/train-1,shop/Deployment/train@cpu=1,1\n")

	q, err := p.Ask("shop/train-1", "", "open", nil)
	require.NoError(t, err)
	require.Equal(t, []string{"n1"}, names(q, q.Allowed))
	require.Equal(t, []string{"devices of example.com/gpu"}, q.Beyond)
}

// Where a node offers what drivers serve on others, each pod has one app, whichever
// node comes first.
func TestTraceOfMixedResource(t *testing.T) {
	plugin := node("n1")
	plugin.Status.Allocatable["example.com/gpu"] = resource.MustParse("4")
	for _, nodes := range [][]*v1.Node{{plugin, node("n2")}, {node("n2"), plugin}} {
		p := picture(nodes, pod("train", "train-1", nodes[0].Name, "1", func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
		}))
		p.Served = []string{"example.com/gpu"}
		tr, _ := snap(t, p)
		texts := files(t, tr)
		require.Equal(t, 2, strings.Count(texts["apps.csv"], "\n"), texts["apps.csv"])
		require.NotContains(t, texts["events.csv"], "delete", texts["events.csv"])
	}
}

// The number that a workload's annotation declares is its forecast; one that says nothing
// usable is left out, with a note.
func TestTraceOfDeclaredNumbers(t *testing.T) {
	web, db := deployment("web", 5, "1"), deployment("db", 3, "2")
	web.Annotations = map[string]string{kube.ExpectedAnnotation: "40", kube.WindowAnnotation: "2026-05-04T08:00:00Z/2026-05-04T09:00:00Z"}
	db.Annotations = map[string]string{kube.ExpectedAnnotation: "many", kube.WindowAnnotation: "now"}
	p := picture([]*v1.Node{node("n1")}, pod("web", "web-1", "n1", "1"), pod("db", "db-1", "n1", "2"))
	p.Declared.Deployments = []*appsv1.Deployment{web, db}
	tr, notes := snap(t, p)
	require.Equal(t, []string{
		`shop/Deployment/db: the annotation sigma-scheduler.io/expected "many" is ignored: want a whole number from 1 to 2147483647`,
		`shop/Deployment/db: the annotation sigma-scheduler.io/window "now" is ignored: want START/END, each a time like 2026-05-04T08:00:00Z`,
	}, notes)
	expected := map[string]float64{}
	for _, a := range tr.Instance.Apps {
		expected[a.Name] = a.Expected
	}
	require.Equal(t, map[string]float64{"shop/Deployment/web@cpu=1": 40, "shop/Deployment/db@cpu=2": 3}, expected)

	// In a cluster the window counts now.
	q, err := p.Ask("shop/web-1", "", "open", nil)
	require.NoError(t, err)
	q.State.SetClock(float64(time.Date(2026, 5, 4, 8, 15, 0, 0, time.UTC).Unix()))
	require.InDelta(t, .25, q.State.Elapsed(q.State.AppIndex(q.App)), 0)
}

func TestTraceByHand(t *testing.T) {
	p := picture(
		[]*v1.Node{
			node("n2", typed("small")),
			node("n1", typed("small"), func(n *v1.Node) { n.Annotations = map[string]string{kube.CostAnnotation: "2.5"} }),
			node("g1", typed("gpu.large"), tainted, func(n *v1.Node) { n.Status.Allocatable["example.com/gpu"] = resource.MustParse("2") }),
			node("old", typed("small"), cordoned), node("empty", typed("small"), cordoned),
		},
		pod("web", "web-1", "n2", "1", created(20)), pod("web", "web-2", "n1", "1", created(10)),
		pod("db", "db-1", "old", "2500m", created(5)),
		pod("agent", "agent-1", "n1", "500m", ofDaemonSet),
		pod("train", "train-1", "", "1", created(40), tolerates, func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
		}),
		pod("web", "web-3", "", "1", created(30)),
		pod("web", "web-4", "", "1", created(30), func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "wait"}} }),
		pod("web", "ended", "n1", "1", func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded }),
		pod("web", "stray", "gone", "1"),
	)
	p.Declared.Deployments = []*appsv1.Deployment{deployment("web", 5, "1")}
	p.Rules = []*kube.Rule{rule(t, v1alpha1.PlacementRuleSpec{
		PodSet: app("web"), MaxPerNode: new(int32(2)), Excludes: []v1alpha1.Exclusion{{PodSet: app("db"), Max: 1}},
	})}
	tr, notes := snap(t, p)
	require.Empty(t, notes)
	sel := podspec.NewSelector(pod("x", "x", "", "1", tolerates)).ID
	train := `"shop/Deployment/train@cpu=1,example.com/gpu=1,` + sel + `"`
	require.Equal(t, map[string]string{
		"trace.yaml": `name: snap
dimensions: [cpu, memory, pods, example.com/gpu]
devices: []
fleet: open
maxShareOfApp: 0.5
source:
  cluster:
    allocatable:
      cpu: 20
      memory: 42949672960
    follow:
      shop/web-1: true
      shop/web-2: true
    lost:
      shop/stray: their node is not in the cluster
    no_types: no label of architecture
    nodes:
      empty:
        cost: 0.16
        why: cordoned
      old:
        why: cordoned
    prices:
      annotation: 1
      model: 4
    requested:
      cpu: 5
      memory: 0
    waiting:
      shop/train-1: limits beside other pods
      shop/web-3: limits beside other pods
      shop/web-4: "scheduling gates: no node is looked for yet"
  declared:
    shop/Deployment/db: 0
  fixed:
    shop/db-1: it is not ready
    shop/web-1: it is not ready
    shop/web-2: it is not ready
  method: sigma snapshot
  nodes: 5
  origin: Kubernetes cluster
  pods: 5
  taken: "2026-05-04T12:00:00Z"
`,
		"machines.csv": `machine,type,count,cost,cpu,memory,pods,example.com/gpu
g1,gpu.large,1,2.06,4,8Gi,10,2
n1,small,1,2.5,3500m,8Gi,9,0
n2,small,1,0.16,4,8Gi,10,0
old,cordoned,1,0.16,4,8Gi,10,0
`,
		"apps.csv": `app,group,types,cpu,memory,pods,example.com/gpu,max_per_machine,spread_min,expected,lifetime
shop/Deployment/db@cpu=2500m,shop/Deployment/db,small,2500m,0,1,0,,,1,
` + train + `,shop/Deployment/train,gpu.large|small,1,0,1,1,,,,
shop/Deployment/web@cpu=1,shop/Deployment/web,small,1,0,1,0,2,,5,
`,
		"rules.csv": "app,other,max\nshop/Deployment/web,shop/Deployment/db,1\n",
		"placed.csv": `request,app,machine,count,devices
shop/db-1,shop/Deployment/db@cpu=2500m,old,1,
shop/web-2,shop/Deployment/web@cpu=1,n1,1,
shop/web-1,shop/Deployment/web@cpu=1,n2,1,
`,
		"events.csv": `time,kind,request,app,count
0,create,shop/web-3,shop/Deployment/web@cpu=1,1
0,create,shop/train-1,` + train + `,1
`,
	}, files(t, tr))
}

// TestTraceIsTheSchedulersState: a trace has the machines, apps, limits, rules and
// free amounts that a scheduler decides on.
func TestTraceIsTheSchedulersState(t *testing.T) {
	for seed := range uint64(40) {
		l := newLife(seed)
		for range 60 {
			l.step()
		}
		for _, n := range l.nodes {
			n.Spec.Unschedulable = false // they are no machines to a scheduler
		}
		l.nodes["plain"] = node("plain") // no app is without a node
		p := l.picture()
		p.Rules = []*kube.Rule{rule(t, v1alpha1.PlacementRuleSpec{
			PodSet: app("web"), MaxPerNode: new(int32(2)), SpreadMin: new(int32(3)), Excludes: []v1alpha1.Exclusion{{PodSet: app("db")}},
		})}
		live := ledger.New()
		take := func(e *ledger.Event) { require.NoError(t, live.Apply(e)) }
		take(&ledger.Event{Kind: ledger.KindStart, Start: &ledger.Start{Version: ledger.Version, Fleet: "open", Units: podspec.Units}})
		cluster := kube.NewTranslator("", live, take)
		cluster.SetRules(p.Rules)
		for _, n := range p.Nodes {
			cluster.SetNode(n, p.standing()[n.Name])
		}
		for _, o := range p.Pods {
			if waits(o) {
				cluster.EnsureApp(o)
			}
		}
		want := live.Columns()

		r := NewRecorder("", noon)
		require.NoError(t, r.Record(p, noon))
		written, _, err := r.Trace("x", "fixed") // of which a state has all machines at once
		require.NoError(t, err)
		dir := filepath.Join(t.TempDir(), "trace")
		require.NoError(t, written.Write(dir))
		tr, err := trace.Load(dir)
		require.NoError(t, err)
		got := binpack.NewState(tr.Instance)
		for _, o := range tr.Placed {
			got.Book(tr.Requests[o.Request].App, got.MachineAt(o.Line, o.Index))
		}
		adjusted, _ := written.Source["adjusted"].(map[string]any)
		require.Equal(t, describe(want, nil), describe(got, adjusted), "seed %d", seed)
	}
}

// describe returns everything that a decision depends on, by name, without the free
// amounts of machines that were adjusted.
func describe(s *binpack.State, adjusted map[string]any) map[string]string {
	inst := s.Instance()
	one := func(d int, n int64) float64 { return float64(n) / float64(inst.Dimensions[d].One) }
	m := map[string]string{}
	for i := range int32(s.Size()) {
		line, _ := s.Position(i)
		ml := inst.Machines[line]
		text := fmt.Sprint("cost ", ml.Cost)
		for d, dim := range inst.Dimensions {
			if free := one(d, s.Free(d)[i]); free >= 0 && adjusted[ml.Name] == nil {
				text += fmt.Sprint(" ", dim.Name, " ", free)
			} else {
				text = "overcommitted"
				break
			}
		}
		for _, e := range s.Contents(i) {
			m[ml.Name+" holds "+inst.Apps[e.App].Name] = fmt.Sprint(e.Count)
		}
		m["machine "+ml.Name] = text
	}
	for _, a := range inst.Apps {
		g := inst.Groups[a.Group]
		text := fmt.Sprint(g.Name, " limit ", g.Limit, " spread ", g.SpreadMin)
		for d, dim := range inst.Dimensions {
			text += fmt.Sprint(" ", dim.Name, " ", one(d, a.Demand[d]))
		}
		for _, ml := range inst.Machines {
			if a.Types == nil || slices.Contains(a.Types, ml.Type) {
				text += " " + ml.Name
			}
		}
		m["app "+a.Name] = text
	}
	for _, r := range inst.Rules {
		m["rule "+inst.Groups[r.A].Name+" "+inst.Groups[r.B].Name] = fmt.Sprint(r.Max)
	}
	return m
}

// The capacity of a node may shrink below what its pods take.
func TestOvercommitted(t *testing.T) {
	tr, notes := snap(t, picture([]*v1.Node{node("n1"), node("n2")},
		pod("web", "web-1", "n1", "3"), pod("web", "web-2", "n1", "2500m"), pod("agent", "agent", "n2", "5", ofDaemonSet), pod("web", "web-3", "n2", "1")))
	require.Equal(t, []string{
		"node n1 is overcommitted: its capacity is raised to what stands there: cpu 4 to 5500m",
		"node n2 is overcommitted: its capacity is raised to what stands there: cpu 0 to 1",
	}, notes)
	require.Equal(t, map[string]any{"n1": "cpu 4 to 5500m", "n2": "cpu 0 to 1"}, tr.Source["adjusted"])
	require.Contains(t, files(t, tr)["machines.csv"], "n1,node,1,0.16,5500m,8Gi,10\n")
}

// The capacity is raised to the most that ever stood there.
func TestOvercommittedForAWhile(t *testing.T) {
	nodes, web := []*v1.Node{node("n1")}, pod("web", "web-1", "n1", "3")
	r := NewRecorder("", noon)
	record(t, r, 0, picture(nodes, web))
	record(t, r, 5, picture(nodes, web, pod("web", "web-2", "n1", "2")))
	record(t, r, 9, picture(nodes, web))
	_, notes, err := r.Trace("x", "open")
	require.NoError(t, err)
	require.Equal(t, []string{"node n1 is overcommitted: its capacity is raised to what stands there: cpu 4 to 5"}, notes)
}

// A trace leaves out pods that no node can take: they would spoil every comparison.
func TestHopelessPodsAreLeftOut(t *testing.T) {
	p := picture([]*v1.Node{node("n1"), node("g1", tainted)}, pod("web", "web-1", "n1", "1"), pod("big", "big-1", "", "64"), pod("big", "big-2", "", "64"),
		pod("gone", "gone-1", "", "1", func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"pool": "none"} }))
	p.Declared.Deployments = []*appsv1.Deployment{deployment("big", 9, "64"), deployment("large", 1, "65")}
	tr, notes := snap(t, p)
	require.Len(t, tr.Requests, 1)
	require.Len(t, tr.Instance.Apps, 1, "what can never come is not expected either")
	require.Len(t, notes, 2)
	require.Equal(t, "shop/Deployment/big@cpu=64 fits no node, not even an empty one: waiting pods left out: 2", notes[0])
	require.Contains(t, notes[1], "shop/Deployment/gone@cpu=1,sel-")
}

// Pods may stand on nodes that no longer admit them, and fit nowhere else.
func TestPodsMayStay(t *testing.T) {
	tr, notes := snap(t, picture([]*v1.Node{node("n1"), node("g1", tainted), node("old", cordoned)},
		pod("web", "web-1", "g1", "1"), // tainted after it came
		pod("pinned", "pinned-1", "old", "1", func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"pool": "old"} }),
	))
	require.Len(t, notes, 1)
	require.Contains(t, notes[0], "shop/Deployment/pinned@cpu=1,sel-")
	require.Contains(t, notes[0], "fits no node that its pods may go to now: they may be where they stand")
	inst := tr.Instance
	types := map[string][]string{}
	for _, a := range inst.Apps {
		for _, i := range a.Types {
			types[inst.Groups[a.Group].Name] = append(types[inst.Groups[a.Group].Name], inst.Types[i])
		}
	}
	require.Equal(t, []string{history.Cordoned}, types["shop/Deployment/pinned"])
	require.NotContains(t, types["shop/Deployment/web"], history.Cordoned, "it may go to n1")
	require.Len(t, types["shop/Deployment/web"], 1)
}

func TestTypeNames(t *testing.T) {
	big := func(n *v1.Node) { n.Status.Allocatable = amounts("cpu", "15890m", "memory", "63500Mi", "pods", "10") }
	pool := func(name string) func(*v1.Node) {
		return func(n *v1.Node) {
			n.Labels = map[string]string{"karpenter.sh/nodepool": name, v1.LabelInstanceTypeStable: "m5"}
		}
	}
	c5 := func(n *v1.Node) { n.Labels[v1.LabelInstanceTypeStable] = "c5" }
	tests := []struct {
		name  string
		nodes []*v1.Node
		want  []string // of the nodes, in order
	}{
		{"one kind", []*v1.Node{node("a"), node("b")}, []string{"4c8g", "4c8g"}},
		{"one kind of several sizes", []*v1.Node{node("a"), node("b", big)}, []string{"node", "node"}},
		{"by instance type", []*v1.Node{node("a", typed("small")), node("b", typed("gpu"), tainted)}, []string{"small", "gpu"}},
		{"by pool, since the instance type is the same", []*v1.Node{node("a", pool("main")), node("b", pool("gpu"), tainted)}, []string{"main", "gpu"}},
		{"by instance type, though they admit the same pods", []*v1.Node{node("a", typed("m5.xlarge")), node("b", typed("m5.4xlarge"), big), node("c", tainted)}, []string{"m5.xlarge", "m5.4xlarge", "type-2"}},
		{"by instance type and pool", []*v1.Node{node("a", pool("main")), node("b", pool("main"), c5), node("c", pool("db"), tainted), node("d", pool("db"), c5, tainted)}, []string{"m5/main", "c5/main", "m5/db", "c5/db"}},
		{"by shape, since the label is the same", []*v1.Node{node("a", typed("m5")), node("b", typed("m5"), tainted, big)}, []string{"4c8g", "16c62g"}},
		{"by number, since all is the same", []*v1.Node{node("a"), node("b", tainted)}, []string{"type-1", "type-2"}},
		{"by number, since a name is taken", []*v1.Node{node("a", typed("type-2")), node("b", tainted, big), node("c", tainted)}, []string{"type-2", "type-3", "type-3"}},
		{"not cordoned", []*v1.Node{node("a", typed("small")), node("b", typed("small"), cordoned)}, []string{"small", history.Cordoned}},
		{"cordoned is the label's own", []*v1.Node{node("a", typed(history.Cordoned)), node("b", tainted, typed("x"))}, []string{"type-1", "x"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pods := []*v1.Pod{pod("web", "web-a", "a", "1"), pod("web", "web-b", "b", "1"), pod("train", "train-a", "a", "1", tolerates)}
			tr, _ := snap(t, picture(tt.nodes, pods...))
			var got []string
			for _, m := range tr.Instance.Machines {
				got = append(got, tr.Instance.Types[m.Type])
			}
			require.Equal(t, tt.want, got)
			files(t, tr) // they can be written
		})
	}
}
