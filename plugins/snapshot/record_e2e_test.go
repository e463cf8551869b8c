//go:build e2e

package snapshot_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// TestRecord: a cluster that nothing of Sigma is in is recorded day by day; killed, the recorder goes on from its
// log; what it wrote is a trace.
func TestRecord(t *testing.T) {
	c := theCluster(t)
	dir := filepath.Join(t.TempDir(), "record")
	for i := range 3 {
		c.node(fmt.Sprint("node-", i), "4")
	}
	c.pod("web-0", "web", "node-0", "1")
	log := filepath.Join(dir, "decisions.jsonl")
	seen := func(text string) {
		t.Helper()
		c.eventually(func() error {
			if written, err := os.ReadFile(log); err != nil || !strings.Contains(string(written), text) {
				return fmt.Errorf("%s is not recorded yet: %w", text, err)
			}
			return nil
		})
	}
	killed := c.command("record", "--out", dir)
	require.NoError(t, killed.Start())
	seen("/web-0\"")
	c.pod("web-1", "web", "node-1", "1")
	seen("/web-1\"")
	require.NoError(t, killed.Process.Kill())
	require.Error(t, killed.Wait())
	c.kill("web-0")
	c.pod("web-2", "web", "node-2", "1")
	require.Regexp(t, `: 0 days without a gap, 3 nodes; in \d+s 0 pods came and 0 went\n$`, c.ok("record", "--out", dir, "--watch", "3s"))
	seen("/web-2\"")
	out := filepath.Join(t.TempDir(), "trace")
	c.ok("convert", "log", log, "--out", out)
	tr, err := trace.Load(out)
	require.NoError(t, err)
	require.Len(t, tr.Instance.Machines, 3)
	require.Equal(t, 1, tr.Initial)
	require.Len(t, tr.Events, 3, "web-1 and web-2 came, web-0 went")
	var index []any
	text, err := os.ReadFile(filepath.Join(dir, "segments", "segments.json"))
	if err == nil {
		require.NoError(t, json.Unmarshal(text, &index))
	}
	require.Empty(t, index, "no day is over")

	for _, n := range []string{"node-0", "node-1", "node-2"} {
		c.eventually(func() error { return c.client.CoreV1().Nodes().Delete(t.Context(), n, metav1.DeleteOptions{}) })
	}
	c.node("another", "4")
	code, _, stderr := c.run("record", "--out", dir, "--watch", "3s")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "another cluster")
}
