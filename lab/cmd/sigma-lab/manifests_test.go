package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestManifests(t *testing.T) {
	docs, folder := t.TempDir(), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(docs, "results"), 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "a.yaml"), []byte(`apiVersion: v1
kind: ConfigMap
metadata: {name: c}
---
apiVersion: v1
kind: Pod
metadata: {name: Upper}
spec: {containers: [{name: c, image: i}]}
`), 0o600))
	code, _, stderr := try(t, t.Context(), "manifests", "one="+folder, "--docs", docs)
	require.Zero(t, code, stderr)
	text, err := os.ReadFile(filepath.Join(docs, "results", "manifests.md"))
	require.NoError(t, err)
	for _, row := range []string{
		"\n| one | 1 | 2 | 2 | 0 | 0 | 1 | 0 | 0 | 1 |\n", "\n| all | 1 | 2 | 2 | 0 | 0 | 1 | 0 | 0 | 1 |\n",
		"\n| ConfigMap | 0 | 0 | 1 | 0 | 0 | 0 |\n", "\n| Pod | 0 | 0 | 0 | 0 | 0 | 1 |\n", "| `a lowercase RFC 1123 subdomain must",
	} {
		require.Contains(t, string(text), row)
	}
	require.NotContains(t, string(text), folder)
	code, _, stderr = try(t, t.Context(), "manifests", "one="+filepath.Join(folder, "none"), "--docs", docs)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "no such file")
}
