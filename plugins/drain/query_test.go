package drain

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/kube"
)

func TestLargest(t *testing.T) {
	text, asked := "", ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Path + " " + r.URL.Query().Get("query")
		_, _ = w.Write([]byte(text))
	}))
	defer server.Close()
	for answer, want := range map[string]any{
		`{"status":"success","data":{"resultType":"scalar","result":[1,"0.5"]}}`:                             .5,
		`{"status":"success","data":{"resultType":"vector","result":[{"value":[1,"2"]},{"value":[1,"7"]}]}}`: 7.,
		`{"status":"success","data":{"resultType":"vector","result":[]}}`:                                    "the answer has no value",
		`{"status":"success","data":{"resultType":"vector","result":[{"value":[1,"NaN"]}]}}`:                 "no number",
		`{"status":"success","data":{"resultType":"matrix","result":[]}}`:                                    "want a vector or a scalar",
		`{"status":"error","error":"parse error"}`:                                                           "the server says: parse error",
		`<html>`: "cannot be read",
	} {
		text = answer
		value, err := queryServer(server.URL+"/prom/").largest(t.Context(), `max(up{job="a"})`)
		require.Equal(t, `/prom/api/v1/query max(up{job="a"})`, asked)
		if why, refused := want.(string); refused {
			require.ErrorContains(t, err, why, answer)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, want, value)
	}
	server.Close()
	_, err := queryServer(server.URL).largest(t.Context(), "up")
	require.Error(t, err)
	_, err = queryServer("").largest(t.Context(), "up")
	require.ErrorContains(t, err, "the scheduler has no argument rebalancePrometheus")
}

// nodesAlone are a site's nodes.
type nodesAlone []*v1.Node

func (s nodesAlone) Nodes() []*v1.Node                                      { return s }
func (nodesAlone) Pods() []*v1.Pod                                          { return nil }
func (nodesAlone) Refusal(context.Context, []*v1.Pod, ...kube.Place) string { return "" }
func (nodesAlone) NotEvictable() func(*v1.Pod) bool                         { return nil }
func (nodesAlone) MissingRight(context.Context) (string, error)             { return "", nil }
func (nodesAlone) Evict(context.Context, string, int, *v1.Pod) error {
	return nil
}
func (nodesAlone) Evicted(context.Context, string) (int, error)      { return 0, nil }
func (nodesAlone) Full(context.Context, []*v1.Pod) error             { return nil }
func (nodesAlone) Recent(context.Context) (func(*v1.Pod) int, error) { return nil, nil }
func (nodesAlone) PatchNode(context.Context, string, []byte) error   { return nil }

// Tenant a's pods that no node would take, empty or not, stop no Rebalance.
func TestTwoTenantsHopelessPods(t *testing.T) {
	cordoned := node(0, "a")
	cordoned.Spec.Unschedulable = true
	c := newController(Options{Site: nodesAlone{cordoned}}, nil)
	waits := func(cpu string, change func(*v1.Pod)) *v1.Pod {
		p := pod("web", 1, 0, cpu)
		p.Namespace, p.Spec.NodeName = "a", ""
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable}}
		if change != nil {
			change(p)
		}
		return p
	}
	reason := func(p *v1.Pod) string {
		return c.guardrails(t.Context(), &v1alpha1.RebalanceStop{PendingPods: 1}, noon, []*v1.Pod{p}, nil).reason
	}
	require.Equal(t, "PodsWait", reason(waits("4", nil)), "the node that the Rebalance has cordoned would take it")
	require.Empty(t, reason(waits("5", nil)))
	require.Empty(t, reason(waits("1", func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"pool": "none"} })))
}

// Nodes are spared while few pods wait and the query's answer is below its threshold.
func TestSpares(t *testing.T) {
	c := newController(Options{Site: nodesAlone{node(0, "a")}}, nil)
	waiting := pod("web", 1, 0, "1")
	waiting.Spec.NodeName = ""
	waiting.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable}}
	gated := waiting.DeepCopy()
	gated.Status.Conditions[0].Reason = v1.PodReasonSchedulingGated
	spares := func(when *v1alpha1.RebalanceStop, away []string, pods ...*v1.Pod) string {
		return c.guardrails(t.Context(), when, noon, pods, away).reason
	}
	one := &v1alpha1.RebalanceStop{PendingPods: 1}
	require.Empty(t, spares(one, nil, gated, pod("web", 2, 0, "1")))
	require.Equal(t, "PodsWait", spares(one, nil, waiting))
	require.Empty(t, spares(one, []string{"shop/Deployment/web", "shop/ReplicaSet/web-7d4"}, waiting), "it is away")
	require.Empty(t, spares(&v1alpha1.RebalanceStop{PendingPods: 2}, nil, waiting))

	asks := &v1alpha1.RebalanceStop{PendingPods: 1, Query: "q", Threshold: new(2.)}
	for _, a := range []struct {
		answer queryResult
		want   string
	}{
		{queryResult{value: 2}, ""}, {queryResult{value: 2.1}, "Query"}, {queryResult{err: errors.New("timeout")}, "Query"},
	} {
		a.answer.query, a.answer.at = "q", noon.Add(-queryEvery+time.Second)
		c.lastQuery = a.answer
		require.Equal(t, a.want, spares(asks, nil))
	}
	c.lastQuery = queryResult{query: "q", at: noon.Add(-queryEvery)} // it is old, and nobody answers
	require.Equal(t, "Query", spares(asks, nil))
	require.ErrorContains(t, c.lastQuery.err, "rebalancePrometheus")
}
