package extender

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/testutil"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/engine"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// A desk is a server at which a scheduler calls, with a clock that stands still.
type desk struct {
	testing.TB
	*Server
	path string // of the decision log
	now  time.Time
}

func newDesk(t testing.TB, changes ...func(*Options)) *desk {
	t.Helper()
	d := &desk{TB: t, path: filepath.Join(t.TempDir(), "decisions.jsonl"), now: time.Unix(1.7e9, 0)}
	e, err := engine.New(engine.Options{
		Profile: t.Name(), PolicyName: "general", AppLabel: "app", Fleet: "fixed", DecisionLog: d.path, Top: Levels,
		Now: func() time.Time { return d.now },
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = e.Close() })
	opt := Options{Engine: e, AssumeTTL: 30 * time.Second, MaxRequestBytes: 1 << 20, Now: func() time.Time { return d.now }}
	for _, change := range changes {
		change(&opt)
	}
	d.Server, err = New(opt, informers.NewSharedInformerFactory(fake.NewClientset(), 0))
	require.NoError(t, err)
	d.ready.Store(true)
	return d
}

// filling is a policy that prefers the fullest node, spreading one that prefers
// the emptiest.
func policyOf(weight float64, mode policy.Mode) *policy.Object {
	return &policy.Object{APIVersion: policy.APIVersion, Kind: policy.ObjectKind, Metadata: policy.Metadata{Name: "general"}, Spec: policy.Spec{
		FeatureVersion: 1, Model: "linear", Knowledge: "K0", Features: []string{"mean"}, Weights: []float64{weight}, Mode: mode,
	}}
}

const (
	filling   = 1
	spreading = -1
)

func (d *desk) decideBy(weight float64) {
	d.opt.Engine.SetPolicy(ledger.Primary, policyOf(weight, "live"))
}

func node(name string, cores int) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{
		"cpu": *resource.NewQuantity(int64(cores), resource.DecimalSI), "memory": *resource.NewQuantity(int64(cores)<<32, resource.BinarySI),
		"pods": resource.MustParse("110"),
	}}}
}

func pod(name, app string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{"app": app}},
		Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
			"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi"),
		}}}}},
	}
}

// at is a pod as the cluster has it, on a node.
func at(p *v1.Pod, node string) *v1.Pod {
	p = p.DeepCopy()
	p.Spec.NodeName = node
	return p
}

func (d *desk) post(path string, body []byte) (status int, answer []byte) {
	d.Helper()
	w := httptest.NewRecorder()
	d.Handler().ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodPost, path, bytes.NewReader(body)))
	return w.Code, w.Body.Bytes()
}

// call is what a scheduler sends that has told us of no nodes but their names.
func (d *desk) call(path string, p *v1.Pod, names []string, answer any) {
	d.Helper()
	names = append([]string{}, names...) // never null
	body, err := json.Marshal(extenderv1.ExtenderArgs{Pod: p, NodeNames: &names})
	require.NoError(d, err)
	status, text := d.post(path, body)
	require.Equal(d, http.StatusOK, status, "%s", text)
	require.NoError(d, json.Unmarshal(text, answer))
}

func (d *desk) prioritize(p *v1.Pod, names ...string) map[string]int64 {
	d.Helper()
	var list extenderv1.HostPriorityList
	d.call("/prioritize", p, names, &list)
	scores := map[string]int64{}
	for _, h := range list {
		scores[h.Host] = h.Score
	}
	require.Len(d, list, len(names))
	return scores
}

// first is the node that a pod is put on.
func (d *desk) first(p *v1.Pod, names ...string) string {
	d.Helper()
	for name, score := range d.prioritize(p, names...) {
		if score == extenderv1.MaxExtenderPriority {
			return name
		}
	}
	return ""
}

func (d *desk) filter(p *v1.Pod, names ...string) (passed []string, refused map[string]string) {
	d.Helper()
	var result extenderv1.ExtenderFilterResult
	d.call("/filter", p, names, &result)
	require.Empty(d, result.Error)
	require.Nil(d, result.Nodes)
	return *result.NodeNames, result.FailedAndUnresolvableNodes
}

func (d *desk) logged(kind ledger.Kind) []*ledger.Event {
	d.Helper()
	require.NoError(d, d.opt.Engine.Close())
	text, err := os.ReadFile(d.path)
	require.NoError(d, err)
	v, err := ledger.Verify(d.path, bytes.NewReader(text))
	require.NoError(d, err)
	require.Nil(d, v.First, "%v", v.First)
	var list []*ledger.Event
	for r := ledger.NewReader(d.path, bytes.NewReader(text)); ; {
		e, err := r.Next()
		if err != nil {
			require.ErrorIs(d, err, io.EOF)
			return list
		}
		if e.Kind == kind {
			list = append(list, e)
		}
	}
}

// oneWeb puts a rule in force: one pod of the app web on a node.
func (d *desk) oneWeb() {
	d.Helper()
	r, err := kube.NewRule(&v1alpha1.PlacementRule{ObjectMeta: metav1.ObjectMeta{Name: "few"}, Spec: v1alpha1.PlacementRuleSpec{
		PodSet: v1alpha1.PodSet{Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}, MaxPerNode: new(int32(1)),
	}})
	require.NoError(d, err)
	d.opt.Engine.SetRules([]*kube.Rule{r})
}

func TestFilter(t *testing.T) {
	d := newDesk(t)
	d.oneWeb()
	for _, name := range []string{"a", "b", "c"} {
		d.view.setNode(node(name, 4))
	}
	d.view.setPod(at(pod("web-1", "web"), "b"))
	passed, refused := d.filter(pod("web-2", "web"), "c", "b", "a", "unheard-of")
	require.Equal(t, []string{"c", "a", "unheard-of"}, passed, "in their order")
	require.Equal(t, map[string]string{"b": "placement rule few: at most 1 of default/web on a node"}, refused)
	passed, refused = d.filter(pod("db-1", "db"), "a", "b")
	require.Equal(t, []string{"a", "b"}, passed)
	require.Empty(t, refused)
	passed, _ = d.filter(pod("db-1", "db"))
	require.Empty(t, passed)

	// A scheduler that sends the nodes themselves gets nodes.
	body, err := json.Marshal(extenderv1.ExtenderArgs{Pod: pod("web-2", "web"), Nodes: &v1.NodeList{Items: []v1.Node{*node("a", 4), *node("b", 4), *node("c", 4)}}})
	require.NoError(t, err)
	status, text := d.post("/filter", body)
	require.Equal(t, http.StatusOK, status)
	var result extenderv1.ExtenderFilterResult
	require.NoError(t, json.Unmarshal(text, &result))
	require.Nil(t, result.NodeNames)
	require.Len(t, result.Nodes.Items, 2)
	require.EqualValues(t, 4, result.Nodes.Items[0].Status.Allocatable.Cpu().Value(), "whole nodes")
	require.Contains(t, result.FailedAndUnresolvableNodes, "b")

	body, err = json.Marshal(extenderv1.ExtenderArgs{Pod: pod("web-2", "web"), Nodes: &v1.NodeList{Items: []v1.Node{*node("b", 4), *node("a", 4)}}})
	require.NoError(t, err)
	status, text = d.post("/prioritize", body)
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `[{"Host":"b","Score":10},{"Host":"a","Score":9}]`, string(text), "Best-Fit: there is no policy")
}

// The best has 10, the next 9 and so on; eleven nodes and more end with zeros.
func TestPrioritize(t *testing.T) {
	d := newDesk(t)
	d.decideBy(filling)
	var names []string
	for i := range 14 {
		name := fmt.Sprintf("n%02d", i)
		names = append(names, name)
		d.view.setNode(node(name, 4+i))
	}
	slices.Reverse(names)
	scores := d.prioritize(pod("web-1", "web"), names...)
	for i := range 14 {
		require.EqualValues(t, max(0, 10-i), scores[fmt.Sprintf("n%02d", i)])
	}
	require.Empty(t, d.prioritize(pod("web-2", "web")))

	// Nodes that we have not heard of get nothing.
	require.Equal(t, map[string]int64{"new": 0, "n01": 10}, d.prioritize(pod("web-3", "web"), "new", "n01"))
	require.Equal(t, map[string]int64{"new": 0}, d.prioritize(pod("web-4", "web"), "new"))
	require.Len(t, d.logged(ledger.KindDecide), 2, "what has no place was not decided")
}

// In shadow nothing is preferred and nothing taken for granted.
func TestPrioritizeInShadow(t *testing.T) {
	d := newDesk(t)
	d.opt.Engine.SetPolicy(ledger.Primary, policyOf(filling, "shadow"))
	d.view.setNode(node("a", 4))
	d.view.setNode(node("b", 4))
	require.Equal(t, map[string]int64{"a": 0, "b": 0}, d.prioritize(pod("web-1", "web"), "a", "b"))
	require.Empty(t, d.view.assumed)
}

// The first choice counts at once, before the cluster says so.
func TestAssumes(t *testing.T) {
	d := newDesk(t)
	d.decideBy(spreading)
	d.oneWeb()
	d.view.setNode(node("a", 4))
	d.view.setNode(node("b", 4))
	d.view.setNode(node("c", 4))
	require.Equal(t, "a", d.first(pod("web-1", "web"), "a", "b"))
	require.Equal(t, "b", d.first(pod("db-1", "db"), "a", "b"))
	_, refused := d.filter(pod("web-2", "web"), "a", "b", "c")
	require.Contains(t, refused, "a")

	// The cluster says the same: nothing changes.
	d.view.setPod(at(pod("web-1", "web"), "a"))
	_, refused = d.filter(pod("web-2", "web"), "a", "b", "c")
	require.Len(t, refused, 1)
	require.Len(t, d.view.assumed, 1)
	require.Empty(t, d.logged(ledger.KindPlace))
}

// Of one node the scheduler does not ask which is best: the pod goes there.
func TestAssumesTheOnlyNode(t *testing.T) {
	d := newDesk(t)
	d.decideBy(spreading)
	d.oneWeb()
	d.view.setNode(node("a", 4))
	d.view.setNode(node("b", 4))
	passed, _ := d.filter(pod("web-1", "web"), "b")
	require.Equal(t, []string{"b"}, passed)
	passed, _ = d.filter(pod("web-2", "web"), "a", "b")
	require.Equal(t, []string{"a"}, passed)
	passed, refused := d.filter(pod("web-3", "web"), "a", "b")
	require.Empty(t, passed)
	require.Len(t, refused, 2)
	decisions := d.logged(ledger.KindDecide)
	require.Len(t, decisions, 2)
	require.Equal(t, ledger.CauseSingle, decisions[1].Cause)
}

// What is not heard of for long came to nothing.
func TestAssumptionExpires(t *testing.T) {
	d := newDesk(t)
	d.decideBy(spreading)
	d.oneWeb()
	d.view.setNode(node("a", 4))
	d.view.setNode(node("b", 4))
	d.view.setNode(node("c", 4))
	require.Equal(t, "a", d.first(pod("web-1", "web"), "a", "b"))
	d.now = d.now.Add(30 * time.Second)
	_, refused := d.filter(pod("web-2", "web"), "a", "b", "c")
	require.Contains(t, refused, "a")
	d.now = d.now.Add(1)
	_, refused = d.filter(pod("web-2", "web"), "a", "b", "c")
	require.Empty(t, refused)
	require.Empty(t, d.view.assumed)
	d.view.setPod(at(pod("web-1", "web"), "a")) // late, but it came
	_, refused = d.filter(pod("web-2", "web"), "a", "b", "c")
	require.Contains(t, refused, "a")
	require.Len(t, d.logged(ledger.KindFailed), 1)
}

// A scheduler that asks about a pod again did not bind it.
func TestRetry(t *testing.T) {
	d := newDesk(t)
	d.decideBy(spreading)
	d.oneWeb()
	d.view.setNode(node("a", 4))
	d.view.setNode(node("b", 4))
	require.Equal(t, "a", d.first(pod("web-1", "web"), "a", "b"))
	passed, _ := d.filter(pod("web-1", "web"), "a", "b")
	require.Equal(t, []string{"a", "b"}, passed, "it is not in its own way")
	require.Equal(t, "a", d.first(pod("web-1", "web"), "a", "b"))
	require.Len(t, d.view.assumed, 1)
	require.Len(t, d.logged(ledger.KindFailed), 1)
	require.Len(t, d.logged(ledger.KindArrive), 1)
	require.Len(t, d.logged(ledger.KindDecide), 2)
}

// The scheduler took another node than our first.
func TestBoundElsewhere(t *testing.T) {
	d := newDesk(t)
	d.decideBy(spreading)
	d.oneWeb()
	d.view.setNode(node("a", 4))
	d.view.setNode(node("b", 4))
	d.view.setNode(node("c", 4))
	require.Equal(t, "a", d.first(pod("web-1", "web"), "a", "b"))
	d.view.setPod(at(pod("web-1", "web"), "b"))
	passed, refused := d.filter(pod("web-2", "web"), "a", "b", "c")
	require.Equal(t, []string{"a", "c"}, passed)
	require.Contains(t, refused, "b")
	require.Empty(t, d.view.assumed)
	place := d.logged(ledger.KindPlace)
	require.Len(t, place, 1)
	require.Equal(t, "b", place[0].Node)
}

// A pod that is bound already is asked about again, by a scheduler that lags: it
// stays where it is.
func TestAskedAboutBoundPod(t *testing.T) {
	d := newDesk(t)
	d.decideBy(spreading)
	d.oneWeb()
	d.view.setNode(node("a", 4))
	d.view.setNode(node("b", 4))
	d.view.setNode(node("c", 4))
	d.view.setPod(at(pod("web-1", "web"), "b"))
	d.filter(pod("db-1", "db"), "a", "b")
	require.Equal(t, "a", d.first(pod("web-1", "web"), "a", "b"))
	require.Empty(t, d.view.assumed)
	_, refused := d.filter(pod("web-2", "web"), "a", "b", "c")
	require.Contains(t, refused, "b")
	require.NotContains(t, refused, "a")
	d.logged(ledger.KindDecide)
}

func TestPodsGo(t *testing.T) {
	d := newDesk(t)
	d.decideBy(spreading)
	d.oneWeb()
	d.view.setNode(node("a", 4))
	d.view.setNode(node("b", 4))
	d.view.setNode(node("c", 4))
	free := func() bool {
		_, refused := d.filter(pod("new", "web"), "a", "b", "c")
		return len(refused) == 0
	}
	require.Equal(t, "a", d.first(pod("web-1", "web"), "a", "b"))
	require.False(t, free())
	d.view.removePod(pod("web-1", "web")) // deleted before it was bound
	require.True(t, free())

	bound := at(pod("web-2", "web"), "a")
	d.view.setPod(bound)
	require.False(t, free())
	d.view.removePod(bound)
	require.True(t, free())

	d.view.setPod(bound)
	ended := bound.DeepCopy()
	ended.Status.Phase = v1.PodSucceeded
	d.view.setPod(ended)
	require.True(t, free())
	d.view.setPod(ended) // its status may change once more
	require.True(t, free())

	d.view.setPod(pod("waits", "web")) // has no node
	require.True(t, free())
	require.Empty(t, d.view.pods)
	require.Empty(t, d.view.on)
	d.logged(ledger.KindDecide)
}

// A node goes with its pods and comes back with them.
func TestNodesGo(t *testing.T) {
	d := newDesk(t)
	d.oneWeb()
	d.view.setPod(at(pod("web-1", "web"), "a")) // heard of before its node
	d.view.setNode(node("a", 4))
	d.view.setNode(node("b", 4))
	refused := func() int {
		_, r := d.filter(pod("new", "web"), "a", "b")
		return len(r)
	}
	require.Equal(t, 1, refused())
	d.view.removeNode("a")
	require.Equal(t, 0, refused())
	require.Equal(t, map[string]int64{"a": 0, "b": 10}, d.prioritize(pod("other", "other"), "a", "b"))
	d.view.setNode(node("a", 4))
	require.Equal(t, 1, refused())
	d.logged(ledger.KindDecide)
}

// Deletions reach the handlers as what was last known.
func TestLast(t *testing.T) {
	p := pod("x", "web")
	require.Same(t, p, last(p))
	require.Same(t, p, last(cache.DeletedFinalStateUnknown{Key: "default/x", Obj: p}))
}

// With the informers: not ready before all there is was read.
func TestInformers(t *testing.T) {
	client := fake.NewClientset(node("a", 4), node("b", 4), at(pod("web-1", "web"), "a"))
	factory := informers.NewSharedInformerFactory(client, 0)
	d := newDesk(t)
	d.oneWeb()
	var err error
	d.Server, err = New(d.opt, factory)
	require.NoError(t, err)
	body, err := json.Marshal(extenderv1.ExtenderArgs{Pod: pod("new", "web"), NodeNames: &[]string{"a", "b"}})
	require.NoError(t, err)
	for _, verb := range []string{"/filter", "/prioritize"} {
		status, text := d.post(verb, body)
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Equal(t, "nodes and pods are not read yet\n", string(text))
	}
	require.Error(t, d.Ready())
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); factory.Shutdown() })
	factory.Start(ctx.Done())
	require.Eventually(t, func() bool { return d.Ready() == nil }, 10*time.Second, time.Millisecond)
	refused := func() string {
		_, r := d.filter(pod("new", "web"), "a", "b")
		var names []string
		for name := range r {
			names = append(names, name)
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	eventually := func(want string) {
		t.Helper()
		require.Eventually(t, func() bool { return refused() == want }, 10*time.Second, time.Millisecond, want)
	}
	require.Equal(t, "a", refused())
	pods := client.CoreV1().Pods("default")
	_, err = pods.Create(ctx, at(pod("web-2", "web"), "b"), metav1.CreateOptions{})
	require.NoError(t, err)
	eventually("a b")
	require.NoError(t, pods.Delete(ctx, "web-1", metav1.DeleteOptions{}))
	eventually("b")
	require.NoError(t, client.CoreV1().Nodes().Delete(ctx, "b", metav1.DeleteOptions{}))
	eventually("")
	_, err = client.CoreV1().Nodes().Create(ctx, node("b", 8), metav1.CreateOptions{})
	require.NoError(t, err)
	eventually("b")
}

func TestBadRequests(t *testing.T) {
	d := newDesk(t, func(o *Options) { o.MaxRequestBytes = 2000 })
	d.view.setNode(node("a", 4))
	valid, err := json.Marshal(extenderv1.ExtenderArgs{Pod: pod("x", "web"), NodeNames: &[]string{"a"}})
	require.NoError(t, err)
	tests := []struct {
		name, body string
		status     int
		text       string
	}{
		{"whole", string(valid), http.StatusOK, ""},
		{"with space around", "\n " + string(valid) + " \n", http.StatusOK, ""},
		{"empty", "", http.StatusBadRequest, "the request is no ExtenderArgs: unexpected end of JSON input"},
		{"garbage", "\x00\xff", http.StatusBadRequest, "the request is no ExtenderArgs: invalid character"},
		{"cut off", string(valid[:len(valid)/2]), http.StatusBadRequest, "the request is no ExtenderArgs: "},
		{"more behind it", string(valid) + "x", http.StatusBadRequest, "the request is no ExtenderArgs: invalid character 'x' after top-level value"},
		{"twice", string(valid) + string(valid), http.StatusBadRequest, "the request is no ExtenderArgs: "},
		{"null", "null", http.StatusBadRequest, "Pod is missing"},
		{"a list", "[]", http.StatusBadRequest, "the request is no ExtenderArgs: json: cannot unmarshal array"},
		{"no pod", `{"NodeNames":["a"]}`, http.StatusBadRequest, "Pod is missing"},
		{"no uid", `{"Pod":{"metadata":{"name":"x"}},"NodeNames":["a"]}`, http.StatusBadRequest, "Pod.metadata.uid is missing"},
		{"no nodes", `{"Pod":{"metadata":{"uid":"x"}}}`, http.StatusBadRequest, "NodeNames and Nodes are missing"},
		{"a number that is none", `{"Pod":{"metadata":{"uid":"x"},"spec":{"containers":[{"resources":{"requests":{"cpu":"lots"}}}]}},"NodeNames":["a"]}`, http.StatusBadRequest, "the request is no ExtenderArgs: quantities must match"},
		{"too large", strings.Repeat(" ", 2001), http.StatusRequestEntityTooLarge, "the request is larger than 2000 bytes"},
	}
	for _, tt := range tests {
		for _, verb := range []string{"filter", "prioritize"} {
			before := d.requests(verb, tt.status)
			status, text := d.post("/"+verb, []byte(tt.body))
			require.Equal(t, tt.status, status, "%s: %s", tt.name, text)
			require.Contains(t, string(text), tt.text, tt.name)
			require.Equal(t, before+1, d.requests(verb, tt.status), tt.name)
		}
	}
	for path, want := range map[string]int{"/filter": http.StatusMethodNotAllowed, "/prioritise": http.StatusNotFound, "/": http.StatusNotFound} {
		w := httptest.NewRecorder()
		d.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		require.Equal(t, want, w.Code)
	}
}

func (d *desk) requests(verb string, status int) int {
	d.Helper()
	n, err := testutil.GetCounterMetricValue(requests.WithLabelValues(verb, fmt.Sprint(status)))
	require.NoError(d, err)
	return int(n)
}

// A bug answers 500, and the next call is answered.
func TestPanic(t *testing.T) {
	d := newDesk(t)
	d.view.setNode(node("a", 4))
	d.view.nodes["b"], d.view.dirty["b"] = nil, true
	body, err := json.Marshal(extenderv1.ExtenderArgs{Pod: pod("x", "web"), NodeNames: &[]string{"a"}})
	require.NoError(t, err)
	status, text := d.post("/prioritize", body)
	require.Equal(t, http.StatusInternalServerError, status, "%s", text)
	require.Contains(t, string(text), "panic: ")
	delete(d.view.nodes, "b")
	require.Equal(t, "a", d.first(pod("x", "web"), "a"))
}

// Conflicts of pods that another scheduler bound are seen with the informer.
func TestConflicts(t *testing.T) {
	d := newDesk(t)
	d.decideBy(spreading)
	d.oneWeb()
	d.view.setNode(node("a", 4))
	d.view.setNode(node("b", 4))
	require.Equal(t, "a", d.first(pod("web-1", "web"), "a", "b"))
	d.view.setPod(at(pod("web-1", "web"), "a"))
	require.Empty(t, d.opt.Engine.Conflicts(), "our own")
	d.view.setPod(at(pod("web-2", "web"), "a"))
	require.Equal(t, map[string]int{"few": 1}, d.opt.Engine.Conflicts())
}

// Whatever a caller sends, it is answered, with 200 only what could be read whole.
func FuzzPrioritize(f *testing.F) {
	names := []string{"a", "b"}
	for _, args := range []extenderv1.ExtenderArgs{
		{Pod: pod("x", "web"), NodeNames: &names},
		{Pod: pod("x", "web"), Nodes: &v1.NodeList{Items: []v1.Node{*node("a", 4), *node("c", 2)}}},
		{Pod: at(pod("y", "db"), "a"), NodeNames: &[]string{""}},
		{},
	} {
		text, err := json.Marshal(args)
		require.NoError(f, err)
		f.Add(text)
		f.Add(text[:len(text)/2])
	}
	f.Add([]byte(`{"Pod":{"metadata":{"uid":"z"},"spec":{"nodeSelector":{"a":"b"},"overhead":{"cpu":"-1"},"containers":[{"resources":{"requests":{"cpu":"9e99","x":"-3"}}}]}},"NodeNames":["a","b","a"]}`))
	f.Add([]byte(`{"Pod":{"metadata":{"uid":"z","ownerReferences":[{"kind":"DaemonSet","controller":true}]},"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"","operator":"Gt"}]}]}}}}},"NodeNames":null,"Nodes":{}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		d := newDesk(t)
		d.decideBy(filling)
		d.oneWeb()
		d.view.setNode(node("a", 4))
		d.view.setNode(node("b", 8))
		d.view.setPod(at(pod("web-1", "web"), "a"))
		for _, verb := range []string{"/filter", "/prioritize", "/prioritize"} {
			status, answer := d.post(verb, body)
			switch status {
			case http.StatusOK:
				require.True(t, json.Valid(body), "%q", body)
				require.True(t, json.Valid(answer), "%q", answer)
				var args extenderv1.ExtenderArgs
				require.NoError(t, json.Unmarshal(body, &args))
				if verb == "/filter" {
					continue
				}
				var list extenderv1.HostPriorityList
				require.NoError(t, json.Unmarshal(answer, &list))
				require.Len(t, list, len(namesOf(&args)))
				for _, h := range list {
					require.GreaterOrEqual(t, h.Score, extenderv1.MinExtenderPriority)
					require.LessOrEqual(t, h.Score, extenderv1.MaxExtenderPriority)
				}
			case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
			default:
				t.Fatalf("%d: %s", status, answer)
			}
		}
		d.logged(ledger.KindDecide)
	})
}
