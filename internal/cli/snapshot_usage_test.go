package cli

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/usage/prometheus/prometheustest"
)

// dump writes a cluster of one node with a pod of each of some StatefulSets, and returns its file.
func dump(t *testing.T, names ...string) string {
	t.Helper()
	items := []string{`{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1"},"status":{"allocatable":{"cpu":"8","memory":"32Gi","pods":"20"}}}`}
	for _, name := range names {
		items = append(items, fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"%s-0","namespace":"shop","ownerReferences":[{"apiVersion":"apps/v1","kind":"StatefulSet","name":"%[1]s","uid":"u-%[1]s","controller":true}]},`+
			`"spec":{"nodeName":"n1","containers":[{"name":"app","image":"i","resources":{"requests":{"cpu":"2","memory":"4Gi"}}}]},"status":{"phase":"Running"}}`, name))
	}
	path := filepath.Join(t.TempDir(), "cluster.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"kind":"List","apiVersion":"v1","items":[`+strings.Join(items, ",")+`]}`), 0o600))
	return path
}

// One Prometheus that has two clusters with the same names of pods.
func TestSnapshotOfOneClusterOfSeveral(t *testing.T) {
	f := &prometheustest.Fake{}
	for cluster, cpu := range map[string]float64{"a": .5, "b": 1.5} {
		f.Series = append(f.Series, prometheustest.With(prometheustest.Of("shop", "db-0", "app", prometheustest.Always(cpu), prometheustest.Always(1<<30)), map[string]string{"cluster": cluster}))
	}
	server := httptest.NewServer(f)
	defer server.Close()
	from := dump(t, "db")
	t.Chdir(t.TempDir())
	sigma := func(args ...string) (string, string, int) {
		var out, errs bytes.Buffer
		code := run(t.Context(), args, &out, &errs)
		return out.String(), errs.String(), code
	}
	for _, command := range [][]string{{"snapshot", "--usage", "--out", "snap"}, {"savings"}} {
		command = append(command, "--from", from, "--prometheus", server.URL)
		_, stderr, code := sigma(command...)
		assert.Equal(t, exitUsage, code, command)
		assert.Contains(t, stderr, `by the label cluster "a", "b": choose one with --prometheus-match 'cluster="b"'`)
	}
	for cluster, want := range map[string]string{"a": ",,503m,", "b": ",,1501m,"} {
		out, stderr, code := sigma("snapshot", "--usage", "--out", cluster, "--from", from, "--prometheus", server.URL, "--prometheus-match", `cluster="`+cluster+`"`)
		require.Equal(t, exitOK, code, stderr)
		require.Contains(t, out, "use of 21 days")
		apps, err := os.ReadFile(filepath.Join(cluster, "apps.csv"))
		require.NoError(t, err)
		assert.Contains(t, string(apps), want)
	}
	out, stderr, code := sigma("savings", "--from", from, "--prometheus", server.URL, "--prometheus-match", `cluster="a"`, "--format", "json")
	require.Equal(t, exitOK, code, stderr)
	assert.Contains(t, out, `--prometheus-match 'cluster=\"a\"'`, "the commands of the bill")
}
