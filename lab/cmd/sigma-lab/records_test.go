package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func try(t *testing.T, ctx context.Context, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = laboratory().Run(ctx, append([]string{"records"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

func TestExitCodes(t *testing.T) {
	t.Setenv("SIGMA_DATA", "")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	docs, out := "--docs="+t.TempDir(), "--out="+t.TempDir()
	for _, c := range []struct {
		ctx    context.Context
		args   []string
		code   int
		stderr string
	}{
		{t.Context(), []string{"placement", "smal"}, 2, `unknown section "smal": want one of cluster, large,`},
		{t.Context(), []string{"autoscaler", "tests"}, 2, `unknown side "tests": want one of train, test`},
		{t.Context(), []string{"validate", "all"}, 2, `unknown command "all"`},
		{t.Context(), []string{"--no"}, 2, "unknown flag"},
		{t.Context(), []string{"placement", "small", "--sigma", "no/sigma"}, 1, "stat no/sigma: no such file or directory: make build makes it"},
		{t.Context(), []string{"placement", "small", "--sigma", "/bin/false", docs, out}, 1, "bin/sigma generate small"},
		{t.Context(), []string{"autoscaler", "test", docs, out}, 1, "without SIGMA_DATA there are no traces"},
		{t.Context(), []string{"validate", "--app", "x"}, 1, `unknown application "x"`},
		{cancelled, []string{"placement", "small", "--sigma", "/bin/true", docs, out}, 130, "interrupted: pages of sections that ended are written"},
	} {
		code, stdout, stderr := try(t, c.ctx, c.args...)
		assert.Equal(t, c.code, code, c.args)
		assert.Contains(t, stderr, c.stderr, c.args)
		assert.Empty(t, stdout, c.args)
	}
}

// docs/results.md is what the pages say, complete, and a page that a reader takes in.
func TestSummary(t *testing.T) {
	const docs = "../../../docs"
	folder := t.TempDir()
	require.NoError(t, os.CopyFS(folder, os.DirFS(docs)))
	code, _, stderr := try(t, t.Context(), "summary", "--docs", folder)
	require.Zero(t, code, stderr)
	made, err := os.ReadFile(filepath.Join(folder, "results.md"))
	require.NoError(t, err)
	committed, err := os.ReadFile(filepath.Join(docs, "results.md"))
	require.NoError(t, err)
	assert.Equal(t, string(made), string(committed), "run: bin/sigma-lab records summary")
	assert.NotContains(t, string(committed), "Not measured", "a highlight names a row that no page has")
	words := slices.DeleteFunc(strings.Fields(string(committed)), func(word string) bool { // the lines of tables are none
		return !strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
	})
	assert.LessOrEqual(t, len(words), 1500)
}
