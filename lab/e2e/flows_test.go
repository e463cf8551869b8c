//go:build e2e

package e2e_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/lab/e2e"
)

// TestFlowsAgent runs the commands of docs/flows.md that start the agent on every node and take it away: the
// API server admits its pods, one on each node, with two capabilities and the host's network. What the agent
// does there is for the tests of cmd/sigma-flow.
func TestFlowsAgent(t *testing.T) {
	c := e2e.Shared(t)
	c.CreateNodes(t, e2e.Node("node-0", "4", "8Gi"), e2e.Node("node-1", "4", "8Gi"))
	page := openPage(t, c, "flows.md")
	require.NoError(t, os.CopyFS(page.dir, os.DirFS(e2e.Program(t, "install")))) // the folder of a release
	installSigma(t, c)
	c.StartScheduler(t, scheduler, sigmaConfig(false, ""))
	page.run(t, "On every node", 1)
	pods := c.Pods("sigma-flow")
	require.Len(t, pods, 2)
	for _, pod := range pods {
		require.Contains(t, pod.Spec.Containers[0].Image, "/sigma-flow:test")
		require.True(t, pod.Spec.HostNetwork)
	}
	page.run(t, "On every node", 1)
	require.Empty(t, page.blocks, "blocks that this test does not know of")
	e2e.Wait(t, "the end of the pods", func() (string, bool) { return "", len(c.Pods("sigma-flow")) == 0 })
}
