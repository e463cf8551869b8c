package manifest

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// snap is a snapshot of two nodes of 4 cores and 8 GiB, one of them cordoned, on the other of
// which stands one pod of web; another waits.
func snap() *trace.Trace {
	return &trace.Trace{
		Name: "snap", MeasureFrom: math.NaN(),
		Instance: &binpack.Instance{
			Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}, {Name: "memory", One: 1}, {Name: "pods", One: 1}},
			Types:      []string{"node", "cordoned"},
			Machines: []binpack.MachineLine{
				{Name: "n1", Type: 0, Count: 1, Cost: 1, Capacity: []int64{4, 8 << 30, 10}},
				{Name: "n2", Type: 1, Count: 1, Cost: 1, Capacity: []int64{4, 8 << 30, 10}},
			},
			Groups: []binpack.Group{{Name: "shop/Deployment/web"}},
			Apps:   []binpack.App{{Name: "shop/Deployment/web@cpu=1", Demand: []int64{1, 0, 1}, Expected: -1, Lifetime: -1}},
		},
		Requests: []trace.Request{{Name: "shop/web-1", Count: 1}, {Name: "shop/web-2", Count: 1}},
		Initial:  1, Placed: []trace.Placed{{Count: 1}},
		Events: []trace.Event{{Time: 0, Kind: trace.Create, Request: 1, Count: 1}},
	}
}

// write writes files and returns their folder.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

// come lists what comes of a trace: the app and the number, and the types that it may use.
func come(tr *trace.Trace) []string {
	var list []string
	in := tr.Instance
	for _, e := range tr.Events {
		r := tr.Requests[e.Request]
		app, types := in.Apps[r.App], []string{}
		for _, t := range app.Types {
			types = append(types, in.Types[t])
		}
		list = append(list, fmt.Sprint(r.Count, " ", app.Name, " ", in.Groups[app.Group].Limit, " ", app.Demand, " ", types))
	}
	return list
}

const web = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 5
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: i, resources: {requests: {cpu: 1}}}]}
`

// Of a workload comes what neither stands nor waits, with the size that upstream counts: the
// largest init container, and limits where nothing is requested. A rule and anti-affinity limit
// the pods on a node; nothing goes to the cordoned one.
func TestWhatIsToCome(t *testing.T) {
	dir := write(t, map[string]string{
		"a.yaml": web + `---
# nothing
---
apiVersion: v1
kind: Service
metadata: {name: web}
---
apiVersion: sigma-scheduler.io/v1alpha1
kind: PlacementRule
metadata: {name: r}
spec: {selector: {matchLabels: {app: db}}, maxPerNode: 2}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  template:
    metadata: {labels: {app: db}}
    spec:
      initContainers: [{name: init, image: i, resources: {requests: {cpu: 2500m}}}]
      containers: [{name: main, image: i, resources: {limits: {cpu: 500m, memory: 1Gi}}}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec: {selector: {matchLabels: {app: agent}}, template: {spec: {containers: [{name: main, image: i}]}}}
---
apiVersion: sigma-scheduler.io/v1alpha1
kind: PlacementRule
metadata: {name: zones}
spec: {selector: {}, maxPerNode: 1, topologyKey: topology.kubernetes.io/zone}
`,
		"b/jobs.json": `{"apiVersion": "v1", "kind": "List", "items": [
			{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "load"}, "spec": {"parallelism": 4, "completions": 3, "template": {"spec": {"containers": [{"name": "main"}]}}}},
			{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare-1"}, "spec": {"containers": [{"name": "main"}]}},
			{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare-2"}, "spec": {"containers": [{"name": "main"}]}},
			{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web-5d4", "ownerReferences": [{"kind": "Deployment", "name": "web", "controller": true, "apiVersion": "apps/v1", "uid": "u"}]}, "spec": {"template": {"spec": {"containers": [{"name": "main"}]}}}}]}`,
		"c.txt": "not a manifest",
	})
	was := snap()
	tr, count, notes, err := Add(was, []string{dir}, Options{Namespace: "site"})
	require.NoError(t, err)
	require.Equal(t, Count{Planned: 5, Used: 2, NoPods: 1, LeftOut: 2, NotKnown: map[string]int{}}, count)
	require.Equal(t, snap().Instance, was.Instance, "the trace itself does not change")
	require.Equal(t, snap().Events, was.Events)
	require.Equal(t, []string{
		"1 shop/Deployment/web@cpu=1 0 [1000 0 1] []",
		"3 shop/Deployment/web@cpu=1 0 [1000 0 1] []",
		"1 site/StatefulSet/db@cpu=2500m,memory=1Gi 2 [2500 1073741824 1] [node]",
		"3 site/Job/load@nothing 0 [0 0 1] [node]",
		"2 site/Pod/bare@nothing 0 [0 0 1] [node]",
	}, come(tr))
	require.Equal(t, []int64{4000, 8 << 30, 10}, tr.Instance.Machines[0].Capacity, "cpu in m, as its demands need")
	require.Equal(t, []string{
		dir + "/a.yaml, document 6: DaemonSet agent is skipped: its pods have their nodes; what it takes there is not planned for",
		dir + "/b/jobs.json, document 1: ReplicaSet web-5d4 is skipped: it belongs to Deployment web",
		"objects of the manifests: 5 planned, 2 nodes and rules, 1 without pods, 2 left out, 0 not known",
		"no pods: Service 1",
		"left out: DaemonSet.apps 1, ReplicaSet.apps 1",
		"limits and rules of the manifests about zones are left out: the trace has no zones; the scheduler enforces them",
		"the placement rules of the manifests are applied to their workloads; a trace has no labels of pods that stand",
	}, notes)

	_, _, notes, err = Add(was, []string{write(t, map[string]string{"w.yaml": strings.Replace(web, "replicas: 5", "replicas: 2", 1)})}, Options{})
	require.NoError(t, err)
	require.Len(t, notes, 2)
	require.Contains(t, notes[1], "all 2 pods of shop/Deployment/web are there")
}

// In a trace with egress, what comes sends what its annotation, its extended resource or those of
// its workload that stand say.
func TestTrafficOfManifests(t *testing.T) {
	was := snap()
	in := was.Instance
	in.Dimensions = append(in.Dimensions, binpack.Dimension{Name: "egress", One: 1})
	for i := range in.Machines {
		in.Machines[i].Capacity = append(in.Machines[i].Capacity, 8e9)
	}
	in.Apps[0].Demand = append(in.Apps[0].Demand, 60e6)
	as := func(name, annotations, requests string) string {
		text := strings.NewReplacer("name: web,", "name: "+name+",", "labels: {app: web}", "labels: {app: web}, annotations: {"+annotations+"}",
			"requests: {cpu: 1}", "requests: {"+requests+"}").Replace(web)
		return "---\n" + text
	}
	dir := write(t, map[string]string{"w.yaml": as("web", "sigma-scheduler.io/egress: 5M", "cpu: 2") + // of another size: it has no app yet
		as("db", `sigma-scheduler.io/egress: 20G, sigma-scheduler.io/sends: "shop/Deployment/web=7M,shop/Deployment/db=2M:paired,nonsense"`, "cpu: 1") +
		as("asks", "sigma-scheduler.io/egress: 1M", "sigma-scheduler.io/egress-mbps: 300") +
		as("dumb", "a: b", "cpu: 1")})
	tr, _, notes, err := Add(was, []string{dir}, Options{})
	require.NoError(t, err)
	sends := map[string]int64{}
	for _, a := range tr.Instance.Apps {
		sends[a.Name] = a.Demand[3]
	}
	require.Equal(t, map[string]int64{
		"shop/Deployment/web@cpu=1": 60e6, "shop/Deployment/web@cpu=2": 5e6, "shop/Deployment/db@cpu=1": 8e9, "shop/Deployment/dumb@cpu=1": 0,
		"shop/Deployment/asks@sigma-scheduler.io/egress-mbps=300": 300e6,
	}, sends)
	require.Len(t, tr.Instance.Dimensions, 4)
	require.Len(t, tr.Instance.Pairs, 2, "with both apps of web, and none with its own")
	for _, p := range tr.Instance.Pairs {
		require.InEpsilon(t, 7e6, p.Bits, 1e-9)
		require.Equal(t, "shop/Deployment/db@cpu=1", tr.Instance.Apps[p.App].Name)
	}
	at := dir + "/w.yaml, document "
	require.Equal(t, []string{
		"objects of the manifests: 4 planned, 0 nodes and rules, 0 without pods, 0 left out, 0 not known",
		at + "2: a pod of shop/Deployment/db sends more than the pods of any node may, and counts as that",
		at + `2: the annotation sigma-scheduler.io/sends of shop/Deployment/db: "nonsense": want GROUP=BITS: that part is ignored`,
		at + "4: nothing is known of what shop/Deployment/dumb sends, and it counts as 0: give its pods the annotation sigma-scheduler.io/egress",
	}, notes)

	silent := strings.Replace(as("web", "a: b", "cpu: 2"), "---", "", 1)
	tr, _, _, err = Add(was, []string{write(t, map[string]string{"w.yaml": silent})}, Options{})
	require.NoError(t, err)
	require.EqualValues(t, 60e6, tr.Instance.Apps[1].Demand[3], "as its pods that stand")

	_, _, _, err = Add(was, []string{write(t, map[string]string{"w.yaml": as("web", "sigma-scheduler.io/egress: fast", "cpu: 2")})}, Options{})
	require.ErrorContains(t, err, `w.yaml, document 1: the annotation sigma-scheduler.io/egress: "fast"`)
}

const nodes = `apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1, labels: {disk: ssd}}, status: {allocatable: {cpu: 4, example.com/gpu: 2}}}
- {apiVersion: v1, kind: Node, metadata: {name: n2}, spec: {taints: [{key: team, value: a, effect: NoSchedule}]}, status: {allocatable: {cpu: 4}}}
`

// The objects of nodes say which of them a pod may use, and what they offer that no pod of the
// snapshot asks for.
func TestNodesOfManifests(t *testing.T) {
	open := snap()
	open.Instance.Types = []string{"general", "team"}
	pods := func(spec string) string {
		return strings.Replace(web, "spec: {containers:", "spec: {"+spec+" containers:", 1)
	}
	for spec, want := range map[string][]string{
		"":                           {"[general]"},
		"nodeSelector: {disk: hd},":  {"[]", "none"},
		"nodeSelector: {disk: ssd},": {"[general]"},
		"tolerations: [{key: team, operator: Exists}],": {"[]"},
	} {
		text := strings.Replace(pods(spec), "name: web, namespace: shop", "name: new, namespace: shop", 1)
		text = strings.Replace(text, "requests: {cpu: 1}", "requests: {cpu: 1, example.com/gpu: 1}", 1)
		tr, _, _, err := Add(open, []string{write(t, map[string]string{"w.yaml": text, "nodes.yaml": nodes})}, Options{})
		require.NoError(t, err)
		list := come(tr)
		require.True(t, strings.HasSuffix(list[1], " [1000 0 1 1] "+want[0]), "%q: %s", spec, list[1])
		app := tr.Instance.Apps[len(tr.Instance.Apps)-1]
		require.Equal(t, len(want) > 1, app.Types != nil && len(app.Types) == 0, "%q: no node at all", spec)
		require.EqualValues(t, 2, tr.Instance.Machines[0].Capacity[3])
		require.Zero(t, tr.Instance.Machines[1].Capacity[3])
	}
}

// What cannot be planned is an error that names the file, the document and the field.
func TestBadManifests(t *testing.T) {
	change := func(from, to string) string {
		require.Contains(t, web, from)
		return "---\n" + strings.Replace(web, from, to, 1)
	}
	typed := snap()
	typed.Instance.Types = []string{"a", "b"}
	for _, tt := range []struct {
		text, want string
		trace      *trace.Trace
	}{
		{text: change("replicas: 5", "replicas: -1"), want: "w.yaml, document 1: Deployment web: spec.replicas -1: want 0 to 1048576"},
		{text: change("replicas: 5", "replica: 5"), want: `w.yaml, document 1: Deployment: strict decoding error: unknown field "spec.replica"`},
		{text: change("cpu: 1}", "cpu: -1}"), want: "Deployment web: spec.template.spec.containers[0].resources.requests.cpu -1: want 0 or more"},
		{text: change("cpu: 1}", "cpu: lots}"), want: `w.yaml, document 1: Deployment: spec.template.spec.containers[0].resources.requests.cpu "lots": want a quantity such as 500m or 1Gi`},
		{text: change("name: web, ", "name: Web_1, "), want: `w.yaml, document 1: Deployment: metadata.name "Web_1": a lowercase`},
		{text: change("namespace: shop", "namespace: a.b"), want: `w.yaml, document 1: Deployment web: metadata.namespace "a.b": must not contain dots`},
		{text: change("[{name: main, image: i, resources: {requests: {cpu: 1}}}]", "[]"), want: "spec.template.spec.containers is empty"},
		{text: change("name: web, ", ""), want: "w.yaml, document 1: Deployment: metadata.name is missing"},
		{text: change("kind: Deployment\n", ""), want: "w.yaml, document 1: kind is missing"},
		{text: web + "---\n" + web, want: "w.yaml, document 2: Deployment web: "},
		{text: "a: [", want: "w.yaml, document 1: "},
		{text: "[1]", want: "w.yaml, document 1: it is no Kubernetes object"},
		{text: "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n", want: "there is no workload: want Deployment"},
		{text: change("spec: {containers", "spec: {nodeSelector: {disk: ssd}, containers"), want: "w.yaml, document 1: spec.template.spec.nodeSelector of shop/Deployment/web: a trace does not have the labels"},
		{text: web, trace: typed, want: "trace snap: its nodes are of 2 types (a, b), and which of them the pods of the manifests may use is not known: "},
		{text: change("cpu: 1}", "gpu: 1}"), want: "w.yaml, document 1: shop/Deployment/web asks for gpu, which trace snap does not have"},
		{text: web + "---\n" + strings.Replace(nodes, "name: n2", "name: n3", 1), want: "trace snap: the manifests have nodes, but not n2"},
		{text: web + "---\na: b: c\n", want: "w.yaml, document 2: yaml: line 11: mapping values"},
		{text: "{apiVersion: v1, kind: List}\n{apiVersion: v1, kind: List}", want: "w.yaml, document 1: there is text after its object"},
		{text: `{"apiVersion": "v1", "kind": "List"} {"apiVersion": "v1"}`, want: "w.yaml, document 1: kind is missing"},
		{text: "kind: List\napiVersion: v1\nitems: [{a: b}]", want: "w.yaml, document 1: items[0]: kind is missing"},
		{text: "kind: ReplicationController\napiVersion: v1\nmetadata: {name: a}\nspec: {replicas: 1}", want: "ReplicationController a: spec.template is missing"},
		{text: change("name: web, ", "generateName: Web-, "), want: `w.yaml, document 1: Deployment: metadata.name "Web-1": a lowercase`},
		{text: change("spec: {containers", "spec: {overhead: {cpu: -1}, containers"), want: "Deployment web: spec.template.spec.overhead.cpu -1: want 0 or more"},
		{text: change("spec: {containers", "spec: {resources: {limits: {cpu: -1}}, containers"), want: "Deployment web: spec.template.spec.resources.limits.cpu -1: want 0 or more"},
		{text: web + "---\napiVersion: sigma-scheduler.io/v1alpha1\nkind: PlacementRule\nmetadata: {name: r}\nspec: {selector: {}, maxPerNode: 0}\n", want: "w.yaml, document 2: PlacementRule r: spec.maxPerNode 0: want at least 1"},
	} {
		dir := write(t, map[string]string{"w.yaml": tt.text})
		if tt.trace == nil {
			tt.trace = snap()
		}
		_, _, _, err := Add(tt.trace, []string{dir}, Options{})
		require.ErrorContains(t, err, tt.want, tt.text)
	}
	_, _, _, err := Add(snap(), []string{write(t, nil)}, Options{})
	require.ErrorContains(t, err, "there is no .yaml, .yml or .json file")
	_, _, _, err = Add(snap(), []string{"none"}, Options{})
	require.ErrorContains(t, err, "none: no such file")
	_, _, _, err = Add(snap(), []string{"none"}, Options{Namespace: "Shop"})
	require.ErrorContains(t, err, `namespace "Shop": a lowercase`)
}
