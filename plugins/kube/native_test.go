package kube

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// What the admission policy takes for the labels of an app leaves out what ours does.
func TestNativeRulesLeaveOutVolatileLabels(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "manifests", "components", "native-rules", "policy.yaml"))
	require.NoError(t, err)
	var policy struct {
		Spec struct {
			Variables []struct{ Name, Expression string }
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &policy))
	for _, v := range policy.Spec.Variables {
		if v.Name != "app" {
			continue
		}
		for _, key := range volatile {
			require.Contains(t, v.Expression, "'"+key+"'")
		}
		return
	}
	t.Fatal("no variable app")
}
