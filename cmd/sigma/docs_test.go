package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack/policy"
)

// docs/trace-format.md shows the example's files and what a replay makes of
// them as they are.
func TestTraceFormatExample(t *testing.T) {
	const example = "../../docs/examples/hello"
	page := readText(t, "../../docs/trace-format.md")
	shown := func(language, text string) {
		t.Helper()
		require.Contains(t, page, "```"+language+"\n"+text+"```\n")
	}
	files, err := os.ReadDir(example)
	require.NoError(t, err)
	require.Len(t, files, 6)
	for _, f := range files {
		shown(strings.TrimPrefix(filepath.Ext(f.Name()), "."), readText(t, filepath.Join(example, f.Name())))
	}

	placements := filepath.Join(t.TempDir(), "placements.csv")
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"replay", "--trace", example, "--policy", "bestfit", "--placements", placements}, &out, &errs)
	require.Equal(t, exitOK, code, errs.String())
	shown("csv", readText(t, placements))

	_, rest, _ := strings.Cut(page, "```yaml\napiVersion:")
	text, _, found := strings.Cut(rest, "```")
	require.True(t, found)
	_, err = policy.Parse("trace-format.md", []byte("apiVersion:"+text))
	require.NoError(t, err)
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}
