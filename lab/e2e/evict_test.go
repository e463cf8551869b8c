//go:build e2e

package e2e_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/plugins/evict"
)

const evictWorkloads = `
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}, spec: {replicas: 2, serviceName: db, selector: {matchLabels: {app: db}},
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c, image: i}]}}}}
---
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: old}, spec: {replicas: 2, selector: {matchLabels: {app: old}},
  template: {metadata: {labels: {app: old}}, spec: {containers: [{name: c, image: i}]}}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: work}, spec: {backoffLimit: 9,
  template: {metadata: {labels: {app: work}}, spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: guarded}, spec: {maxUnavailable: 0, selector: {matchLabels: {app: guarded}}}}
`

// TestEvict evicts a pod of each kind of workload through the API server: the record is there,
// where the limits find it, and a budget that refuses leaves none.
func TestEvict(t *testing.T) {
	c := e2e.Shared(t)
	ns := c.Namespace(t)
	c.CreateNodes(t, e2e.Nodes(5, 3)...)
	c.StartScheduler(t, scheduler, sigmaConfig(false, ""))
	c.CreateDeployment(t, e2e.Deployment(ns, "web", 2, "100m", "64Mi"))
	c.CreateDeployment(t, e2e.Deployment(ns, "guarded", 2, "100m", "64Mi"))
	c.Kubectl(t, evictWorkloads, "apply", "-n", ns, "-f", "-")
	c.WaitRunning(t, ns, 9)
	objects, err := metadata.NewForConfig(c.Config)
	require.NoError(t, err)
	cluster := evict.Clients(c.Dynamic, objects, c.Client)
	evictor := func(by evict.Source, l evict.Limits) *evict.Evictor {
		return evict.New(cluster, by, l, clock.RealClock{})
	}
	podOf := func(app string) (found *v1.Pod) {
		e2e.Wait(t, "a pod of "+app, func() (string, bool) {
			list, err := c.Client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
			require.NoError(t, err)
			for i := range list.Items {
				if p := &list.Items[i]; p.DeletionTimestamp == nil && p.Spec.NodeName != "" {
					found = p
				}
			}
			return "", found != nil
		})
		return found
	}
	mover := evictor(evict.Rebalance, evict.Defaults)
	records := func(kind, name string) string {
		return c.Kubectl(t, "", "get", "-n", ns, kind, name, "-o", `jsonpath={.metadata.annotations.sigma-scheduler\.io/evictions}`)
	}
	for app, kind := range map[string]string{"web": "deployment", "db": "statefulset", "old": "replicaset", "work": "job"} {
		pod := podOf(app)
		require.NoError(t, mover.Evict(t.Context(), pod), app)
		require.Contains(t, records(kind, app), "Z/rebalance/"+pod.Spec.NodeName, app)
		again := *pod
		again.UID = "another"
		require.ErrorIs(t, evictor(evict.Updater, evict.Limits{}).Evict(t.Context(), &again), evict.ErrGone)
		require.NotContains(t, records(kind, app), "updater", "withdrawn")
	}
	c.WaitRunning(t, ns, 9)
	listed := c.Kubectl(t, "", "get", "configmap", "-n", evict.ListNamespace, evict.ListName, "-o", "jsonpath={.data.evictions}")
	for _, workload := range []string{"apps/Deployment/%s/web", "apps/StatefulSet/%s/db", "apps/ReplicaSet/%s/old", "batch/Job/%s/work"} {
		require.Equal(t, 1, strings.Count(listed, fmt.Sprintf("/"+workload, ns)), listed)
	}
	c.Kubectl(t, "", "delete", "configmap", "-n", evict.ListNamespace, evict.ListName)
	forged := strings.TrimSuffix(strings.Repeat(time.Now().UTC().Format(time.RFC3339)+"/updater/n,", 100), ",")
	c.Kubectl(t, "", "annotate", "-n", ns, "deployment", "guarded", evict.Annotation+"="+forged)
	var limit *evict.LimitError
	require.ErrorAs(t, evictor(evict.MakeRoom, evict.Limits{PerNamespace: 4}).Evict(t.Context(), podOf("guarded")), &limit)
	require.Equal(t, "namespace "+ns, limit.Limit)
	require.Contains(t, limit.Why, "4 evictions within an hour", "those of all kinds that Sigma wrote")
	require.ErrorAs(t, evictor(evict.MakeRoom, evict.Defaults).Evict(t.Context(), podOf("guarded")), &limit)
	require.Equal(t, "workload apps/Deployment/"+ns+"/guarded", limit.Limit, "who forges records fills the own limit")
	c.Kubectl(t, "", "annotate", "-n", ns, "deployment", "guarded", evict.Annotation+"-")

	var refused *evict.RefusedError
	err = evictor(evict.MakeRoom, evict.Limits{PerNamespace: 5}).Evict(t.Context(), podOf("guarded"))
	require.True(t, errors.As(err, &refused) && refused.Budget, "%v", err)
	require.Empty(t, records("deployment", "guarded"))
}
