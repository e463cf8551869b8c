package explain

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/internal/compare"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/snapshot"
)

// A pod that prefers a node of its own stands beside one of its app, the best of the policy (util
// 2/4 against 1/4): kept, the preference costs 1/4 of the score, its price; traded, it is worth the
// price × 100; ignored, it counts nothing.
func TestPodNamesItsPreference(t *testing.T) {
	l := ledger.New()
	node := func(name string) *ledger.Event {
		return &ledger.Event{Kind: ledger.KindNode, Node: name, Machine: &ledger.Machine{Capacity: map[string]int64{"cpu": 4, "pods": 10}}}
	}
	for _, e := range []*ledger.Event{
		{Kind: ledger.KindStart, Start: &ledger.Start{Version: ledger.Version, Fleet: "fixed"}},
		node("a"), node("b"),
		{Kind: ledger.KindApp, App: "web", Spec: &ledger.App{Group: "web", Demand: map[string]int64{"cpu": 1, "pods": 1}, Soft: []string{"apart:machine:100"}}},
		{Kind: ledger.KindPlace, Pod: "shop/web-1", UID: "1", App: "web", Node: "a"},
	} {
		if err := l.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		soft         *policy.Soft
		node, remark string
	}{
		{nil, "b", "Preferences are kept: the soft score is 100, the best of any candidate 100. Without them the policy takes a, whose score is higher by"},
		{&policy.Soft{Mode: "trade", Price: 1}, "b", "Preferences are traded: the soft score is 100, the best of any candidate 100. Without them the policy takes a, whose score is higher by"},
		{&policy.Soft{Mode: "trade", Price: 1e-6}, "a", "Preferences are traded: the soft score is 0, the best of any candidate 100. The policy takes the same node without them."},
		{&policy.Soft{Mode: "ignore"}, "a", "Preferences are ignored: the soft score is 0, the best of any candidate 100. The policy takes the same node without them."},
	} {
		object := &policy.Object{APIVersion: policy.APIVersion, Kind: policy.ObjectKind, Metadata: policy.Metadata{Name: "mine"}}
		object.Spec = policy.Spec{FeatureVersion: policy.FeatureVersion, Model: "linear", Knowledge: "K0", Features: []string{"util"}, Weights: []float64{1}, Soft: c.soft}
		q := &snapshot.Question{Pod: "shop/web-2", App: "web", State: l, Allowed: l.Fits(l.AppIndex("web"), nil), Object: object}
		found, err := PolicyOf(object, q)
		if err != nil {
			t.Fatal(err)
		}
		pod, err := OfPod(q, found)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := pod.Print(&out); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(out.String()), " ")
		if pod.Chosen.Machine != c.node || !strings.Contains(text, c.remark) || !strings.Contains(text, "apart:machine:100") {
			t.Errorf("%+v: %s\n%s", c.soft, pod.Chosen.Machine, text)
		}
		if c.node == "b" && !strings.Contains(text, ": that is their price.") {
			t.Errorf("no price: %s", text)
		}
		data, err := json.Marshal(pod)
		if err != nil || !strings.Contains(string(data), `"softScore":`) || !strings.Contains(string(data), `"price":`) {
			t.Errorf("%s %v", data, err)
		}
	}
}

// cluster has a node with 2 cpu and 1 fpga, of which 2 are in use.
func cluster(t *testing.T) *ledger.Ledger {
	t.Helper()
	l := ledger.New()
	for _, e := range []*ledger.Event{
		{Kind: ledger.KindStart, Start: &ledger.Start{Version: ledger.Version, Fleet: "fixed"}},
		{Kind: ledger.KindNode, Node: "a", Machine: &ledger.Machine{Capacity: map[string]int64{"cpu": 2, "fpga": 1}}},
		{Kind: ledger.KindApp, App: "web", Spec: &ledger.App{Group: "web", Demand: map[string]int64{"cpu": 1}}},
		{Kind: ledger.KindApp, App: "job", Spec: &ledger.App{Group: "job", Demand: map[string]int64{"fpga": 2}}},
		{Kind: ledger.KindPlace, Pod: "shop/job-1", UID: "1", App: "job", Node: "a"},
	} {
		if err := l.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func printedPod(t *testing.T, q *snapshot.Question) string {
	t.Helper()
	found, err := PolicyNamed(&compare.Catalog{}, "bestfit", q)
	if err != nil {
		t.Fatal(err)
	}
	pod, err := OfPod(q, found)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := pod.Print(&out); err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(out.String()), " ")
}

// A node with more of a resource in use than it has is named so to a pod that does not ask for the resource.
func TestResourceThatIsNotAskedFor(t *testing.T) {
	l := cluster(t)
	text := printedPod(t, &snapshot.Question{Pod: "shop/web-1", App: "web", State: l, Allowed: l.Fits(l.AppIndex("web"), nil)})
	if !strings.Contains(text, "capacity 1 more fpga is requested than there is: Sigma places nothing there, also what asks for none") || strings.Contains(text, "too little") || !strings.Contains(text, "1 of 1 node in use") {
		t.Error(text)
	}
	text = printedPod(t, &snapshot.Question{Pod: "shop/job-2", App: "job", State: l, Allowed: l.Fits(l.AppIndex("job"), nil)})
	if !strings.Contains(text, "capacity 1 the pod requests more fpga than the node has") {
		t.Error(text)
	}
}

// A pod that waits is told why it is larger than any node, who holds what it requests, and the next command.
func TestPodThatWaits(t *testing.T) {
	l := cluster(t)
	for _, e := range []*ledger.Event{
		{Kind: ledger.KindApp, App: "huge", Spec: &ledger.App{Group: "huge", Demand: map[string]int64{"cpu": 3}}},
		{Kind: ledger.KindApp, App: "odd", Spec: &ledger.App{Group: "odd", Demand: map[string]int64{"tpu": 1}}},
		{Kind: ledger.KindNode, Node: "b", Machine: &ledger.Machine{Capacity: map[string]int64{"cpu": 1, "fpga": 2}}},
		{Kind: ledger.KindPlace, Pod: "shop/web-1", UID: "2", App: "web", Node: "b"},
	} {
		if err := l.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(app string, change func(*snapshot.Question)) string {
		q := &snapshot.Question{Pod: "shop/" + app + "-2", App: app, State: l, Allowed: l.Fits(l.AppIndex(app), nil)}
		if change != nil {
			change(q)
		}
		return printedPod(t, q)
	}
	for text, want := range map[string][]string{
		ask("huge", nil): {
			"capacity 2 the pod requests more cpu than the node has", "The pod is larger than any node: it requests 3 cpu, and the largest node, a, has 2.",
			"next: kubectl get nodes -o custom-columns=NAME:.metadata.name,CPU:.status.allocatable.cpu,MEMORY:.status.allocatable.memory",
		},
		ask("odd", nil): {"capacity 1 the node has no tpu", "it requests 1 tpu, and no node has any."},
		ask("web", func(q *snapshot.Question) {
			q.Allowed, q.NoPolicy = nil, true
			q.Holders = []snapshot.Holder{{Pod: "ml/train-0", Node: "b", Resource: "nvidia.com/gpu", Amount: "1"}}
		}): {
			"Pods hold nvidia.com/gpu: ml/train-0 (1, on b).", "The cluster has no PlacementPolicy",
			"next: sigma snapshot --out snap && sigma rebalance --trace snap --make-room --out moves.csv",
		},
		ask("job", func(q *snapshot.Question) { q.Gates = []string{"x"} }): {"next: kubectl -n shop get pod job-2 -o jsonpath='{.spec.schedulingGates}'"},
		ask("web", func(q *snapshot.Question) { q.Node = "a" }):            {"It stands on a"},
	} {
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("no %q in %s", part, text)
			}
		}
		if strings.Contains(text, "stands on") && strings.Contains(text, "next:") {
			t.Error("a pod with a node waits for nothing")
		}
	}
}

// A pod with scheduling gates waits for these.
func TestPodNamesItsGates(t *testing.T) {
	l := cluster(t)
	text := printedPod(t, &snapshot.Question{Pod: "shop/web-1", App: "web", State: l, Waits: "blocked", Gates: []string{"example.com/quota", "example.com/team"}})
	if !strings.Contains(text, "It waits for its scheduling gates, and no scheduler tries it before: example.com/quota, example.com/team.") || strings.Contains(text, "blocked") {
		t.Error(text)
	}
}
