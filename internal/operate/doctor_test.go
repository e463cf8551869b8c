package operate

import (
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

// A cluster without Sigma lacks nothing of Sigma's yet: the table advises how it is installed. What
// is half installed, and what no installation mends, lacks.
func TestExamine(t *testing.T) {
	const (
		version = "GET /version"
		kinds   = "GET /apis/sigma-scheduler.io/v1alpha1"
		nodes   = "GET /api/v1/nodes"
		pods    = "GET /api/v1/pods"
	)
	podOf := func(program string) string {
		return `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"p","namespace":"s","labels":{"app.kubernetes.io/name":"` + program + `"}},
			"status":{"conditions":[{"type":"Ready","status":"True"}]}}]}`
	}
	for name, c := range map[string]struct {
		answers map[string]string
		state   State
		lacking int
		unready string
	}{
		"without Sigma":                     {nil, Without, 0, ""},
		"where nobody may list pods":        {map[string]string{pods: ""}, Without, 0, ""},
		"with the autoscaler alone":         {map[string]string{pods: podOf("sigma-mpa")}, Without, 0, ""},
		"with a scheduler that reads kinds": {map[string]string{pods: podOf("sigma-scheduler")}, Lacks, 1, ""},
		"with an extender that reads kinds": {map[string]string{pods: podOf("sigma-extender")}, Lacks, 1, ""},
		"with some of the kinds":            {map[string]string{kinds: `{"kind":"APIResourceList","resources":[{"name":"placementrules"}]}`}, Lacks, 1, ""},
		"without Sigma, too old":            {map[string]string{version: `{"major":"1","minor":"35","gitVersion":"v1.35.0"}`}, Without, 1, ""},
		"without Sigma and nodes":           {map[string]string{nodes: `{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[]}`}, Without, 1, ""},
		"with a node that is lost": {map[string]string{nodes: `{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[
			{"metadata":{"name":"lost"},"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}},
			{"metadata":{"name":"n"},"status":{"conditions":[{"type":"MemoryPressure","status":"False"},{"type":"Ready","status":"True"}]}}]}`}, Without, 0, "1 of 2; not ready: lost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // the client asks slowly
			api := &apiServer{t: t, answers: map[string]string{
				version: `{"major":"1","minor":"36","gitVersion":"v1.36.4"}`,
				nodes:   `{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"n"}}]}`,
				pods:    `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}`,
			}}
			maps.Copy(api.answers, c.answers)
			httpServer := httptest.NewServer(api)
			defer httpServer.Close()
			cluster, err := New(&rest.Config{Host: httpServer.URL}, "sigma-system", time.Minute)
			require.NoError(t, err)
			d, err := cluster.Examine(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.lacking, d.Lacking(), "%v", d)
			at := slices.IndexFunc(d, func(f Finding) bool { return f.Check == "nodes that are ready" })
			require.Equal(t, c.unready != "", at >= 0)
			if at >= 0 {
				require.Equal(t, Finding{"nodes that are ready", Without, c.unready, "kubectl describe node lost"}, d[at])
			}
			for _, f := range d {
				if f.Check == "kinds: placement" {
					require.Equal(t, c.state, f.State)
					require.Contains(t, f.Next, "kubectl apply -f crds.yaml (docs/install.md)")
					require.True(t, strings.HasPrefix(f.Found, "not there: placementpolicies"), f.Found)
					return
				}
			}
			require.Fail(t, "no finding on the kinds")
		})
	}
}
