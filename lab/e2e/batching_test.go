//go:build e2e

package e2e_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/lab/e2e"
)

// kube-scheduler may give the next best node of one pod to the next equal pod without
// ranking again (OpportunisticBatching). In a profile with Sigma, and in a scheduler with an
// extender, each pod is ranked. The first case shows that the same pods are batched
// otherwise.
func TestBatching(t *testing.T) {
	const n = 12
	// The scheduler's own constraints for spreading forbid batching too.
	const plain = "{name: PodTopologySpread, args: {defaultingType: List}}"
	upstream := "percentageOfNodesToScore: 100\nprofiles:\n- pluginConfig: [" + plain + "]\n"
	tests := []struct {
		name   string
		config func(t *testing.T, c *e2e.Cluster) string
		used   bool
	}{
		{"upstream", func(*testing.T, *e2e.Cluster) string { return upstream }, true},
		{"plugin", func(*testing.T, *e2e.Cluster) string {
			return sigmaConfig(false, "appLabel: app") + "  - " + plain + "\n"
		}, false},
		{"extender", func(t *testing.T, c *e2e.Cluster) string {
			x := newExtender(t, filepath.Join(c.Dir, "scheduler.kubeconfig"), "--app-label=app")
			_, extenders, _ := strings.Cut(extenderConfig(x.port), "extenders:")
			return upstream + "extenders:" + extenders
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := e2e.Shared(t)
			installSigma(t, c)
			applyPolicy(t, c, "general-k1", "general")
			ns := c.Namespace(t)
			for i := range n {
				c.CreateNodes(t, e2e.Node(fmt.Sprintf("node-%02d", i), "4", "16Gi"))
				pod := e2e.Pod(ns, fmt.Sprintf("web-%02d", i), "3", "1Gi") // one to a node
				pod.Labels = map[string]string{"app": "web"}
				c.CreatePods(t, pod)
			}
			s := c.StartScheduler(t, scheduler, tt.config(t, c))
			c.WaitBound(t, ns, n)
			used := s.Metric(t, "scheduler_batch_attempts_total", `result="hint_used"`)
			require.Equal(t, tt.used, used > 0, "%v times", used)
		})
	}
}
