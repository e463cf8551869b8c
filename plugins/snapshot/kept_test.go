package snapshot

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/binpack"
)

// Ports of nodes are rules between the workloads that share them; one that meets a port of a DaemonSet, or whose pods differ,
// stays unknown.
func TestHostPorts(t *testing.T) {
	port := func(number int32, ip string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, v1.ContainerPort{HostPort: number, HostIP: ip})
		}
	}
	tr, _ := snap(t, picture([]*v1.Node{node("n1"), node("n2")},
		pod("web", "web-1", "n1", "1", port(80, "")), pod("web", "web-2", "", "1", port(80, "")),
		pod("api", "api-1", "n2", "1", port(80, "10.0.0.1")), pod("other", "other-1", "n2", "1", port(80, "10.0.0.2")),
		pod("agent", "agent-1", "n1", "1", ofDaemonSet, port(9100, "")), pod("metrics", "metrics-1", "n2", "1", port(9100, "")),
		pod("mixed", "mixed-1", "n1", "1", port(81, "")), pod("mixed", "mixed-2", "n2", "1", port(82, "")),
	))
	ignored, err := tr.Ignored()
	require.NoError(t, err)
	require.Equal(t, map[string]any{"shop/metrics-1": "its host ports", "shop/mixed-1": "its host ports", "shop/mixed-2": "its host ports"}, ignored)
	group := map[string]int32{}
	for g, of := range tr.Instance.Groups {
		group[of.Name] = int32(g)
	}
	web, api, other := group["shop/Deployment/web"], group["shop/Deployment/api"], group["shop/Deployment/other"]
	for name, g := range group {
		limit := int32(0)
		if g == web || g == api || g == other {
			limit = 1
		}
		require.Equal(t, limit, tr.Instance.Groups[g].Limit, name)
	}
	require.ElementsMatch(t, []binpack.Rule{{A: web, B: api}, {A: api, B: web}, {A: web, B: other}, {A: other, B: web}}, tr.Instance.Rules)
	files(t, tr)
}

// Pods of which a trace lacks constraints lead placed.csv, and stay where they are when the others are placed again.
func TestKept(t *testing.T) {
	volume := func(p *v1.Pod) {
		p.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}}}}
	}
	tr, notes := snap(t, picture([]*v1.Node{node("n1"), node("n2")},
		pod("web", "web-1", "n1", "1"), pod("db", "db-1", "n2", "1", volume), pod("web", "web-2", "n2", "1"), pod("db", "db-2", "", "1", volume),
	))
	require.Contains(t, notes[0], "2 pods have constraints that a trace cannot express; the first is shop/db-1: its volumes")
	var names []string
	for _, p := range tr.Placed {
		names = append(names, tr.Requests[p.Request].Name+" "+tr.Instance.Machines[p.Line].Name)
	}
	require.Equal(t, []string{"shop/db-1 n2", "shop/web-1 n1", "shop/web-2 n2"}, names)
	again := tr.FromEmpty()
	require.Equal(t, 1, again.Initial)
	require.Len(t, again.Events, 3)
	require.Equal(t, "shop/db-2", again.Requests[again.Events[2].Request].Name)
	files(t, tr)
}
