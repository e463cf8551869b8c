//go:build e2e

package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// TestUpgradeToChart goes from a former version's manifests to the chart of this one and back to kustomize with the former
// version, as docs/helm.md says, while a policy is live and pods come and go.
func TestUpgradeToChart(t *testing.T) {
	if os.Getenv(formerVariable) == "" {
		t.Skip("make e2e-upgrade builds the former version, and names it in " + formerVariable)
	}
	u := installFormer(t)
	u.requirePlacing()
	helm := openHelmPage(t, u.c, func(section string) bool { return section == fromKustomize })
	u.runtime.fill = nil // the chart writes no decision log
	to := func(tag string, mark int) {
		awaitAll(t, u.c, sigmaSystem, func(pod *v1.Pod) bool { return strings.HasSuffix(pod.Spec.Containers[0].Image, ":"+tag) })
		u.runtime.requireAllowed(t)
		u.runtime.sync(t)
		was := u.leader
		u.leader = u.runtime.leader(t)
		require.NotSame(t, was, u.leader)
		u.requirePlacing()
		wait := u.stream.longest(mark)
		require.Less(t, wait, 30*time.Second, "a pod waited for longer than a lease lasts")
		require.Equal(t, u.specs, u.objects(), "policy and rule")
		t.Logf("%s: no pod waited longer than %.1f s", tag, wait.Seconds())
	}

	mark := u.stream.mark()
	helm.run(t, fromKustomize, 1)
	to("test", mark) // the chart's version
	require.Contains(t, helm.shell(t, "helm list -n sigma-system"), "deployed")
	helm.shell(t, "helm upgrade sigma sigma-*.tgz -n sigma-system --reuse-values")

	u.write(former, present)
	for _, folder := range []string{"sigma", "manifests"} {
		require.NoError(t, os.RemoveAll(filepath.Join(helm.dir, folder)))
		require.NoError(t, os.CopyFS(filepath.Join(helm.dir, folder), os.DirFS(filepath.Join(u.dir, folder))))
	}
	mark = u.stream.mark()
	helm.run(t, fromKustomize, 1)
	to(former, mark)
	require.NotContains(t, helm.shell(t, "helm list -n sigma-system"), "deployed")
	u.stream.requireOnce(t)
	u.requireSteady(u.web)
}
