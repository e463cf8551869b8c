package policy_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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
	for name, table := range map[string]string{
		"version":    fmt.Sprintf("This is feature version %d.\n", policy.FeatureVersion),
		"features":   featureTable(policy.Features),
		"devices":    featureTable(policy.DeviceFeatures),
		"parameters": parameterTable(),
	} {
		want = replaceBlock(t, want, name, table)
	}
	if *rewrite {
		require.NoError(t, os.WriteFile(featuresDoc, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(text), "run `make golden` and read the diff")
}

func featureTable(features []policy.Feature) string {
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
	for _, model := range policy.Models() {
		for _, name := range policy.ParameterNames(model) {
			p, ok := policy.Parameters(name)
			if !ok {
				panic("a listed parameter is unknown: " + name)
			}
			fmt.Fprintf(&b, "| %s | `%s` | %g … %g | %s |\n", model, name, p.Low, p.High, p.Meaning)
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
