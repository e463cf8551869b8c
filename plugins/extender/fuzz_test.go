package extender

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// Whatever a caller sends, it is answered, with 200 only what could be read whole.
func FuzzPrioritize(f *testing.F) {
	fuzz(f, "/filter", "/prioritize", "/prioritize")
}

// FuzzFilter ends with a filter: what a call left behind keeps no other from its answer.
func FuzzFilter(f *testing.F) {
	fuzz(f, "/prioritize", "/filter", "/filter")
}

func fuzz(f *testing.F, verbs ...string) {
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
		for _, verb := range verbs {
			status, answer := d.post(verb, body)
			switch status {
			case http.StatusOK:
				require.True(t, json.Valid(body), "%q", body)
				require.True(t, json.Valid(answer), "%q", answer)
				args, err := decode(body)
				require.NoError(t, err)
				if verb == "/filter" {
					requirePassed(t, args, answer)
					continue
				}
				var list extenderv1.HostPriorityList
				require.NoError(t, json.Unmarshal(answer, &list))
				require.Len(t, list, len(args.names))
				for _, h := range list {
					require.GreaterOrEqual(t, h.Score, extenderv1.MinExtenderPriority)
					require.LessOrEqual(t, h.Score, extenderv1.MaxExtenderPriority)
				}
			case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
			default:
				if status != http.StatusServiceUnavailable || !strings.Contains(string(answer), "not known yet") {
					t.Fatalf("%d: %s", status, answer)
				}
			}
		}
		passed, _ := d.filter(pod("another", "db"), "a", "b")
		require.Equal(t, []string{"a", "b"}, passed)
		d.logged(ledger.KindDecide)
	})
}

// requirePassed checks that each node is let pass or refused, and only nodes that exist pass.
func requirePassed(t *testing.T, a *args, answer []byte) {
	t.Helper()
	var result extenderv1.ExtenderFilterResult
	require.NoError(t, json.Unmarshal(answer, &result))
	passed := map[string]bool{}
	if result.NodeNames != nil {
		for _, name := range *result.NodeNames {
			passed[name] = true
		}
	} else {
		for i := range result.Nodes.Items {
			passed[result.Nodes.Items[i].Name] = true
		}
	}
	for _, name := range a.names {
		_, refused := result.FailedAndUnresolvableNodes[name]
		require.NotEqual(t, passed[name], refused, name)
		require.True(t, refused || name == "a" || name == "b", name)
	}
}
