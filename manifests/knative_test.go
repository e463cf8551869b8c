package manifests_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// TestKnativeRights: who observes reads, who acts writes, and neither may do anything else. Without the
// component nobody has a right to Knative.
func TestKnativeRights(t *testing.T) {
	rights, accounts := map[string][]string{}, map[string][]string{}
	text, err := os.ReadFile(filepath.Join("mpa", "knative", "rbac.yaml"))
	require.NoError(t, err)
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var binding rbacv1.ClusterRoleBinding
		var role rbacv1.ClusterRole
		if strings.Contains(document, "kind: ClusterRoleBinding") {
			require.NoError(t, yaml.UnmarshalStrict([]byte(document), &binding))
			for _, s := range binding.Subjects {
				require.Equal(t, "sigma-mpa", s.Namespace)
				accounts[binding.RoleRef.Name] = append(accounts[binding.RoleRef.Name], s.Name)
			}
			continue
		}
		require.NoError(t, yaml.UnmarshalStrict([]byte(document), &role))
		for _, r := range role.Rules {
			require.Equal(t, []string{"serving.knative.dev"}, r.APIGroups)
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					rights[role.Name] = append(rights[role.Name], verb+" "+resource)
				}
			}
		}
	}
	require.Equal(t, map[string][]string{
		"sigma-mpa-knative-recommender": {"get services"},
		"sigma-mpa-knative-updater":     {"get services", "list services", "update services", "get revisions", "patch revisions"},
	}, rights)
	require.Equal(t, map[string][]string{
		"sigma-mpa-knative-recommender": {"sigma-mpa-recommender", "sigma-mpa"},
		"sigma-mpa-knative-updater":     {"sigma-mpa-updater", "sigma-mpa"},
	}, accounts)
	for _, file := range []string{"mpa/base/rbac.yaml", "mpa/limits/rbac.yaml", "mpa/retraining/rbac.yaml"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NotContains(t, string(text), "knative", file)
	}
}
