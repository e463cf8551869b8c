//go:build e2e

package e2e_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/lab/e2e"
)

// kinds are objects that make the scheduler use what rights it has.
const kinds = `
apiVersion: sigma-scheduler.io/v1alpha1
kind: PlacementRule
metadata: {name: apart}
spec: {selector: {matchLabels: {apart: one}}, excludes: [{selector: {matchLabels: {apart: two}}}]}
---
apiVersion: sigma-scheduler.io/v1alpha1
kind: PlacementPolicy
metadata: {name: unusable}
spec: {featureVersion: 1, model: plan, knowledge: K2}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: low}
value: -10
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 10
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: yields, namespace: default}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: yields}}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: volume}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: local
  local: {path: /mnt}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node-0003]}]}]}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: claim, namespace: default}
spec: {accessModes: [ReadWriteOnce], storageClassName: local, resources: {requests: {storage: 1Gi}}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: example}
spec: {selectors: [{cel: {expression: device.driver == 'driver.example.org'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: slice}
spec:
  driver: driver.example.org
  nodeName: node-0003
  pool: {name: pool, generation: 1, resourceSliceCount: 1}
  devices: [{name: device}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: claim, namespace: default}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: example}}]}}
`

// requireNoMoreThanUpstream compares the rights with those that the API server
// gives to its own scheduler: there are no others, and those left out are known.
func requireNoMoreThanUpstream(t *testing.T, c *e2e.Cluster) {
	t.Helper()
	rights := func(names ...string) map[string]bool {
		all := map[string]bool{}
		for _, name := range names {
			role, err := c.Client.RbacV1().ClusterRoles().Get(t.Context(), name, metav1.GetOptions{})
			require.NoError(t, err)
			for _, rule := range role.Rules {
				for _, group := range rule.APIGroups {
					for _, resource := range rule.Resources {
						for _, verb := range rule.Verbs {
							all[verb+" "+resource+"."+group] = true
						}
					}
				}
			}
		}
		return all
	}
	ours, upstream := rights("sigma-scheduler"), rights("system:kube-scheduler", "system:volume-scheduler")
	for right := range ours {
		require.True(t, upstream[right] || slices.Contains(newer, right), "%s is more than upstream has", right)
	}
	var left []string
	for _, right := range slices.Sorted(maps.Keys(upstream)) {
		if !ours[right] && !strings.HasPrefix(right, "get ") {
			left = append(left, right)
		}
	}
	require.Equal(t, leftOut, left)
}

// newer is what upstream's scheduler of the next Kubernetes does, which may run beside
// our extender.
var newer = []string{"list devicetaintrules.resource.k8s.io", "watch devicetaintrules.resource.k8s.io"}

// leftOut is what upstream's scheduler may do and ours does not: older APIs,
// leases of others (ours is in a Role), and what only alpha features do.
var leftOut = []string{
	"create bindings.", "create events.", "create leasecandidates.coordination.k8s.io", "create leases.coordination.k8s.io",
	"delete leasecandidates.coordination.k8s.io", "deletecollection leasecandidates.coordination.k8s.io",
	"list leasecandidates.coordination.k8s.io", "list leases.coordination.k8s.io", "list replicasets.extensions",
	"list resourceclaims/status.resource.k8s.io", "patch events.", "patch leasecandidates.coordination.k8s.io",
	"patch persistentvolumeclaims.", "patch persistentvolumes.", "patch resourceclaims.resource.k8s.io",
	"update events.", "update events.events.k8s.io", "update leasecandidates.coordination.k8s.io",
	"update leases.coordination.k8s.io", "update pods/finalizers.", "update pods/status.",
	"watch leasecandidates.coordination.k8s.io", "watch leases.coordination.k8s.io", "watch replicasets.extensions",
	"watch resourceclaims/status.resource.k8s.io",
}

var metricNames = regexp.MustCompile(`\b(sigma|scheduler)_[a-z_]+`)

// requireMetrics checks that a page has every metric that the dashboard shows.
func requireMetrics(t *testing.T, page string, of func(name string) bool) {
	t.Helper()
	dashboard, err := os.ReadFile(filepath.Join(repository, "manifests", "base", "dashboard.json"))
	require.NoError(t, err)
	checked := 0
	for _, name := range metricNames.FindAllString(string(dashboard), -1) {
		if of(name) {
			checked++
			require.Regexp(t, "(?m)^"+name+"[{ ]", page)
		}
	}
	require.NotZero(t, checked)
}
