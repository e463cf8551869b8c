package packtest

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/sigma-scheduler/sigma/benchdata/policies"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/learned"
)

// Shipped reads the numbers of a shipped policy file, such as general-k1: for the
// tests of a model, which the reader of policy files imports.
func Shipped(tb testing.TB, name string) learned.Spec {
	tb.Helper()
	text, err := policies.Files.ReadFile(name + ".yaml")
	require.NoError(tb, err)
	var file struct {
		Spec struct {
			Knowledge  string
			Features   []string
			Weights    []float64
			Parameters map[string]float64
		}
	}
	require.NoError(tb, yaml.Unmarshal(text, &file))
	know, ok := binpack.ParseKnowledge(file.Spec.Knowledge)
	require.True(tb, ok, file.Spec.Knowledge)
	return learned.Spec{Knowledge: know, Features: file.Spec.Features, Weights: file.Spec.Weights, Parameters: file.Spec.Parameters}
}
