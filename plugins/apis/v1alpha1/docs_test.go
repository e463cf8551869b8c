package v1alpha1_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/sigma-scheduler/sigma/internal/crdtest"
)

// The API server would take every object that a page shows.
func TestObjectsOfDocs(t *testing.T) {
	crds := map[string]*crdtest.CRD{}
	for _, plural := range []string{"placementplans", "placementpolicies", "placementrules", "rebalances", "policypilots"} {
		crd := loadCRD(t, plural)
		crds[crd.Definition.Spec.Names.Kind] = crd
	}
	pages, err := filepath.Glob("../../../docs/*.md")
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
			block, _, _ = strings.Cut(block, "```")
			for object := range strings.SplitSeq(block, "\n---\n") {
				var head struct{ Kind string }
				if yaml.Unmarshal([]byte(object), &head) != nil || crds[head.Kind] == nil {
					continue // a part, or of another program
				}
				_, err := crds[head.Kind].Create(t, []byte(object))
				require.NoError(t, err, "%s:\n%s", page, object)
				seen[head.Kind] = true
			}
		}
	}
	for _, kind := range []string{"PlacementPlan", "PlacementPolicy", "Rebalance", "PolicyPilot"} {
		require.True(t, seen[kind], "no page shows a %s", kind)
	}
}
