//go:build e2e

package e2e_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// driven is a class that serves an extended resource, with four devices on each of two
// nodes.
const driven = `
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {extendedResourceName: example.com/gpu, selectors: [{cel: {expression: device.driver == 'gpu.example.com'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: node-1}
spec: {driver: gpu.example.com, nodeName: node-1, pool: {name: node-1, generation: 1, resourceSliceCount: 1}, devices: [{name: d0}, {name: d1}, {name: d2}, {name: d3}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: node-2}
spec: {driver: gpu.example.com, nodeName: node-2, pool: {name: node-2, generation: 1, resourceSliceCount: 1}, devices: [{name: d0}, {name: d1}, {name: d2}, {name: d3}]}
`

// TestExtendedResourceOfDriver: a driver serves what pods ask for, and no node has it
// in its allocatable. The policy places them on the nodes with devices. So it does
// once another node has the resource from a device plugin.
func TestExtendedResourceOfDriver(t *testing.T) {
	c := e2e.Shared(t)
	installSigma(t, c)
	applyPolicy(t, c, "general-k1", "general")
	ns := c.Namespace(t)
	for i := range 4 {
		c.CreateNodes(t, e2e.Node(fmt.Sprintf("node-%d", i), "8", "32Gi"))
	}
	c.Kubectl(t, driven, "apply", "-f", "-")
	t.Cleanup(func() { c.Kubectl(t, driven, "delete", "-f", "-") })
	log := filepath.Join(t.TempDir(), "decisions.jsonl")
	s := c.StartScheduler(t, scheduler, sigmaConfig(false, "appLabel: app, decisionLog: "+log))
	train := func(name string, resourceName v1.ResourceName) {
		t.Helper()
		pod := e2e.Pod(ns, name, "1", "1Gi")
		pod.Labels["app"] = "train"
		for _, list := range []*v1.ResourceList{&pod.Spec.Containers[0].Resources.Requests, &pod.Spec.Containers[0].Resources.Limits} {
			if *list == nil {
				*list = v1.ResourceList{}
			}
			(*list)[resourceName] = resource.MustParse("1")
		}
		c.CreatePods(t, pod)
	}
	byPolicy := func(name string, extra ...string) {
		t.Helper()
		d := decisions(t, log)[name]
		require.NotNil(t, d, name)
		require.Equal(t, ledger.CausePolicy, d.Cause)
		require.Contains(t, []string{"node-1", "node-2"}, d.Node)
		require.Equal(t, d.Node, c.Placements(ns)[name])
		require.Empty(t, d.Choice)
		require.Equal(t, extra, d.Extra)
	}

	train("one", "example.com/gpu")
	c.WaitRunning(t, ns, 1) // by now Sigma knows the class
	train("two", "example.com/gpu")
	train("three", "deviceclass.resource.kubernetes.io/gpu")
	c.WaitRunning(t, ns, 3)
	byPolicy("two")
	byPolicy("three")
	require.Equal(t, 1, nodesWithPods(c, ns), "the policy packs, upstream does not")
	require.Equal(t, "3", c.Kubectl(t, "", "get", "resourceclaims", "-n", ns, "-o", "go-template={{len .items}}"))

	// A device plugin on a node that is full.
	plugin := e2e.Node("plugin", "8", "32Gi")
	plugin.Status.Capacity["example.com/gpu"] = resource.MustParse("1")
	plugin.Status.Allocatable["example.com/gpu"] = resource.MustParse("1")
	c.CreateNodes(t, plugin)
	full := e2e.Pod(ns, "full", "7500m", "1Gi")
	full.Spec.NodeName = "plugin"
	c.CreatePods(t, full)
	c.WaitRunning(t, ns, 4)
	e2e.Wait(t, "the scheduler to know", func() (string, bool) {
		n := s.Metric(t, "scheduler_cache_size", `type="nodes"`)
		return fmt.Sprint(n), n == 5
	})
	train("four", "example.com/gpu")
	c.WaitRunning(t, ns, 5)
	byPolicy("four", "node-1", "node-2")
	requireSound(t, s)
	requireLog(t, log)
}
