package extender

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/testutil"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

const (
	filling   = 1
	spreading = -1
)

func TestFilter(t *testing.T) {
	d := newDesk(t)
	d.oneWeb()
	for _, name := range []string{"a", "b", "c"} {
		d.view.setNode(node(name, 4))
	}
	d.view.setPod(at(pod("web-1", "web"), "b"))
	passed, refused := d.filter(pod("web-2", "web"), "c", "b", "a", "unheard-of")
	require.Equal(t, []string{"c", "a"}, passed, "in their order")
	require.Equal(t, map[string]string{
		"b": "placement rule few: at most 1 of default/web on a node", "unheard-of": unknownNode,
	}, refused)
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

	// Unknown nodes get 0.
	require.Equal(t, map[string]int64{"new": 0, "n01": 10}, d.prioritize(pod("web-3", "web"), "new", "n01"))
	require.Equal(t, map[string]int64{"new": 0}, d.prioritize(pod("web-4", "web"), "new"))
	require.Len(t, d.logged(ledger.KindDecide), 2, "what has no place was not decided")
}

// In shadow nothing is preferred and nothing assumed.
func TestPrioritizeInShadow(t *testing.T) {
	d := newDesk(t)
	d.opt.Engine.SetPolicy(ledger.Primary, policyOf(filling, "shadow"))
	d.view.setNode(node("a", 4))
	d.view.setNode(node("b", 4))
	require.Equal(t, map[string]int64{"a": 0, "b": 0}, d.prioritize(pod("web-1", "web"), "a", "b"))
	require.Empty(t, d.view.assumed)
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

// Room that a plan reserves is closed to other pods, and the planned ones go there.
func TestPlanInTheExtender(t *testing.T) {
	d := newDesk(t)
	d.opt.Engine.SetPolicy(ledger.Primary, policyOf(spreading, "shadow"))
	for _, name := range []string{"a", "b", "c"} {
		d.view.setNode(node(name, 4))
	}
	plan, err := kube.NewPlan(&v1alpha1.PlacementPlan{ObjectMeta: metav1.ObjectMeta{Name: "site"}, Spec: v1alpha1.PlacementPlanSpec{
		Mode: v1alpha1.PlanEnabled, Deadline: metav1.NewTime(time.Now().Add(time.Hour)),
		Workloads: []v1alpha1.PlannedWorkload{{
			Namespace: "default", Name: "web", Nodes: []v1alpha1.PlannedNode{{Node: "b", Pods: 1}, {Node: "c", Pods: 1}},
			Requests: map[string]resource.Quantity{"cpu": resource.MustParse("4"), "memory": resource.MustParse("1Gi")},
		}},
	}}, "app")
	require.NoError(t, err)
	d.opt.Engine.SetPlans([]*kube.Plan{plan})
	passed, refused := d.filter(pod("db-1", "db"), "a", "b", "c")
	require.Equal(t, []string{"a"}, passed)
	const why = "PlacementPlan/site: cpu is reserved for other pods"
	require.Equal(t, map[string]string{"b": why, "c": why}, refused)

	passed, _ = d.filter(pod("web-1", "web"), "a", "b", "c")
	require.Equal(t, []string{"a", "b", "c"}, passed)
	require.Equal(t, map[string]int64{"a": 0, "b": 10, "c": 0}, d.prioritize(pod("web-1", "web"), "c", "b", "a"))
	require.Equal(t, map[string]int64{"a": 0, "b": 0, "c": 10}, d.prioritize(pod("web-2", "web"), "c", "b", "a"))
	require.Equal(t, map[string]int64{"a": 0, "b": 0, "c": 0}, d.prioritize(pod("web-3", "web"), "c", "b", "a"), "the policy is in shadow")
	causes := map[string]int{}
	for _, e := range d.logged(ledger.KindDecide) {
		causes[e.Cause]++
	}
	require.Equal(t, map[string]int{"single": 1, "planned": 2}, causes)
}
