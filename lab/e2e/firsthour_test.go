//go:build e2e

package e2e_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/lab/e2e"
)

// TestFirstHour runs every command of docs/first-hour.md on a cluster whose pods upstream's scheduler has spread. What the page
// shows is what this test prints.
func TestFirstHour(t *testing.T) {
	c := e2e.StartCluster(t)
	c.CreateNodes(t, e2e.Nodes(7, 24)...)
	c.StartScheduler(t, "kube-scheduler", "")
	for i := range 40 {
		c.CreateDeployment(t, e2e.Deployment("default", fmt.Sprintf("app-%02d", i), int32(2+i%9), fmt.Sprint(250+250*(i%6), "m"), fmt.Sprint(512<<(i%3), "Mi")))
	}
	pods := 0
	for i := range 40 {
		pods += 2 + i%9
	}
	c.WaitRunning(t, "default", pods)
	page := openPage(t, c, "first-hour.md")
	require.NoError(t, os.CopyFS(page.dir, os.DirFS(e2e.Program(t, "install")))) // the folder of a release
	require.Regexp(t, `(?m)^kinds: placement +without `, page.run(t, "Minute 0: what does this cluster lack?", 1))
	require.Regexp(t, `(?m)^current +`, page.run(t, "Minute 5: what would it save?", 1))
	if folder := os.Getenv("SIGMA_HOUR"); folder != "" {
		text, err := os.ReadFile(page.dir + "/hour.html")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(folder+"/hour.html", text, 0o600))
	}
	runtime := (*containers)(nil)
	page.startBeforeWait(t, func() { runtime = startContainers(t, c) })
	page.run(t, "Minute 15: a policy in shadow", 1)
	require.Regexp(t, `general +shipped +K1 +shadow +True +True`, page.run(t, "Minute 15: a policy in shadow", 1))
	page.run(t, "Minute 25: a first workload", 1)
	page.run(t, "Minute 35: live", 1)
	page.run(t, "Minute 35: live", 1)
	require.Regexp(t, `(?m)^chosen +node-`, page.run(t, "Minute 45: why there?", 1))
	within(t, "the history", func() (string, bool) { // nobody is as fast as this test
		out := c.Kubectl(t, "", "get", "controllerrevisions", "-n", sigmaSystem, "-o", "name")
		return out, strings.Count(out, "\n") >= 3
	})
	require.Regexp(t, `(?m)^3 .* live `, page.run(t, "Minute 45: why there?", 1))
	require.Regexp(t, `general .* shadow `, page.run(t, "Minute 55: and back", 1))
	require.Empty(t, page.blocks)
	runtime.requireAllowed(t)
}
