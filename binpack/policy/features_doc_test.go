package policy_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack/learned"
	"github.com/sigma-scheduler/sigma/binpack/policy"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the tables of docs/features.md")

const featuresDoc = "../../docs/features.md"

// The tables of docs/features.md are those of the code: -rewrite (make golden)
// brings them up to date.
func TestFeaturesDoc(t *testing.T) {
	text, err := os.ReadFile(featuresDoc)
	require.NoError(t, err)
	want := string(text)
	want = replaceBlock(t, want, "version", fmt.Sprintf("This is feature version %d.\n", policy.FeatureVersion))
	want = replaceBlock(t, want, "parameters", parameterTable())
	var shown []*learned.Feature // the first of each table
	for _, m := range policy.Models() {
		if !strings.Contains(want, "\n| `"+m.Name+"` |") {
			t.Errorf("%s: the table of models lacks a row that begins with | `%s` |", featuresDoc, m.Name)
		}
		if len(m.Features) > 0 && !slices.Contains(shown, &m.Features[0]) {
			want = replaceBlock(t, want, m.Name, featureTable(m.Features))
			shown = append(shown, &m.Features[0])
		}
	}
	if *rewrite {
		require.NoError(t, os.WriteFile(featuresDoc, []byte(want), 0o644))
		return
	}
	has := strings.Split(string(text), "\n")
	for i, line := range strings.Split(want, "\n") {
		if i >= len(has) || has[i] != line {
			t.Fatalf("%s:%d is not what the code says:\n%s\nrun `make golden` and read the diff", featuresDoc, i+1, line)
		}
	}
}

func featureTable(features []learned.Feature) string {
	var b strings.Builder
	b.WriteString("| feature | meaning | formula | unit | range | normaliser |\n|---|---|---|---|---|---|\n")
	for _, f := range features {
		normaliser := f.Normaliser
		if normaliser == "" {
			normaliser = "–"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", f.Name, f.Meaning, f.Formula, f.Unit, f.Range, normaliser)
	}
	return b.String()
}

func parameterTable() string {
	var b strings.Builder
	b.WriteString("| model | parameter | range | meaning |\n|---|---|---|---|\n")
	for _, m := range policy.Models() {
		for _, name := range m.ParameterNames() {
			p, _ := m.Parameter(name)
			fmt.Fprintf(&b, "| %s | `%s` | %g … %g | %s |\n", m.Name, name, p.Low, p.High, p.Meaning)
		}
	}
	return b.String()
}

// replaceBlock puts a block between its marks.
func replaceBlock(t *testing.T, text, name, block string) string {
	t.Helper()
	start, end := "<!-- "+name+":start -->\n", "<!-- "+name+":end -->"
	before, rest, found := strings.Cut(text, start)
	require.True(t, found, start)
	_, after, found := strings.Cut(rest, end)
	require.True(t, found, end)
	return before + start + block + end + after
}
