//go:build e2e

package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
)

// TestRebalanceRelief: pods use more of a node than it has, by a real Prometheus. A dry run names the pod that would leave, and
// mode Auto moves it, and no other, to the node with room in use, though Best-Fit prefers another one by requests. Then the node
// has no more than it has in use, and in mode DryRun again nothing moves.
func TestRebalanceRelief(t *testing.T) {
	c := e2e.Shared(t)
	installSigma(t, c)
	grant(t, c, "rebalance")
	ns := c.Namespace(t)
	cores := map[string]float64{"large": 2.5, "middle": 1.2, "small": .5, "busy": 7.4} // of each pod
	past := func(pods map[string]string) (series []e2e.PastSeries) {
		for name := range pods {
			app, _, _ := strings.Cut(name, "-")
			s := e2e.PastSeries{From: time.Now().Unix()/60*60 - 3600, Until: time.Now().Unix()/60*60 + 3600}
			series = append(series, s.Container(ns, name, "main", "/kubepods/"+name, cores[app], 1<<27)...)
		}
		return series
	}
	late := newLatePrometheus(t)
	s := c.StartScheduler(t, scheduler, sigmaConfig(true, fmt.Sprintf("rebalancePrometheus: %q", late.URL)))
	c.CreateNodes(t, e2e.Node("hot", "8", "32Gi"))
	for _, name := range []string{"large", "middle", "small"} {
		c.CreateDeployment(t, e2e.Deployment(ns, name, 2, "500m", "256Mi"))
	}
	c.WaitRunning(t, ns, 6)
	c.CreateNodes(t, e2e.Node("full", "8", "32Gi"))
	c.CreateDeployment(t, e2e.Deployment(ns, "busy", 1, "6", "256Mi"))
	c.WaitRunning(t, ns, 7)
	c.CreateNodes(t, e2e.Node("room", "8", "32Gi"))
	before := c.Placements(ns)
	planned := func(what string, is func(r v1alpha1.Rebalance) bool) v1alpha1.Rebalance {
		return waitRebalance(t, c, "relief", what, is)
	}

	c.Kubectl(t, "{apiVersion: sigma-scheduler.io/v1alpha1, kind: Rebalance, metadata: {name: relief}, spec: {goal: Relief, moves: \"5\"}}", "apply", "-f", "-")
	planned("no use", func(r v1alpha1.Rebalance) bool {
		is := conditionOf(r.Status.Conditions, v1alpha1.ConditionPlanned)
		return is.Reason == "Unreadable" && strings.Contains(is.Message, "the use of pods cannot be read")
	})
	late.start(t, past(before))
	r := planned("the dry run", func(r v1alpha1.Rebalance) bool { return r.Status.Plan != nil })
	require.EqualValues(t, 1, *r.Status.Plan.Over)
	require.Len(t, r.Status.Plan.Leaves, 1)
	m := r.Status.Plan.Leaves[0]
	require.Equal(t, [2]string{"hot", "room"}, [2]string{m.From, m.To})
	require.Regexp(t, "^"+ns+"/small-", m.Pod)
	require.Contains(t, conditionOf(r.Status.Conditions, v1alpha1.ConditionPlanned).Message, "On 1 of 3 nodes pods use more than the node has. Moves: 1. "+m.Pod+" moves from hot to room.")
	require.Equal(t, before, c.Placements(ns))
	require.EqualValues(t, 1, s.Metric(t, "sigma_rebalance_nodes_over", `goal="Relief"`))

	c.Kubectl(t, "", "patch", "rebalance", "relief", "--type=merge", "-p", `{"spec":{"mode":"Auto"}}`)
	r = planned("the move, and the plan after it", func(r v1alpha1.Rebalance) bool {
		is := conditionOf(r.Status.Conditions, v1alpha1.ConditionProgressing)
		return is.Reason == "Done" && r.Status.Progress.Moved == 1 && *r.Status.Plan.Over == 0
	})
	require.Len(t, r.Status.Today, 1)
	require.Equal(t, m.Pod, r.Status.Today[0].Pod)
	after := c.Placements(ns)
	require.Len(t, after, 7)
	moved := 0
	for name, node := range after {
		if before[name] == "" {
			moved++
			require.Equal(t, "room", node, name)
			require.Regexp(t, "^small-", name)
		} else {
			require.Equal(t, before[name], node)
		}
	}
	require.Equal(t, 1, moved)
	require.EqualValues(t, 1, s.Metric(t, "sigma_rebalance_moves_made_total", `goal="Relief"`, `outcome="done"`))
	require.Empty(t, cordoned(t, c))

	c.Kubectl(t, "", "patch", "rebalance", "relief", "--type=merge", "-p", `{"spec":{"mode":"DryRun"}}`)
	planned("the way back", func(r v1alpha1.Rebalance) bool {
		return r.Status.ObservedGeneration == r.Generation && meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionProgressing) == nil
	})
	require.Equal(t, after, c.Placements(ns))
	c.RequireFits(t)
	requireSound(t, s)
}

func waitRebalance(t *testing.T, c *e2e.Cluster, name, what string, is func(r v1alpha1.Rebalance) bool) (r v1alpha1.Rebalance) {
	t.Helper()
	e2e.Wait(t, what, func() (string, bool) {
		r = rebalanceOf(t, c, name)
		return fmt.Sprintf("%+v", r.Status), is(r)
	})
	return r
}

// TestRebalanceFit: a kubelet defers a resize in place, since the node lacks the room. A dry run names the pod that would make it, mode
// Auto moves it, and the kubelet then grants the resize. Once suspended, nothing more moves.
func TestRebalanceFit(t *testing.T) {
	c := e2e.Shared(t)
	installSigma(t, c)
	grant(t, c, "rebalance")
	ns := c.Namespace(t)
	s := c.StartScheduler(t, scheduler, sigmaConfig(true, ""))
	c.CreateNodes(t, e2e.Node("tight", "8", "32Gi"))
	for name, cpu := range map[string]string{"large": "1500m", "middle": "1", "small": "500m"} {
		c.CreateDeployment(t, e2e.Deployment(ns, name, 2, cpu, "256Mi"))
	}
	c.WaitRunning(t, ns, 6)
	c.CreateNodes(t, e2e.Node("other", "8", "32Gi"))
	before := c.Placements(ns)
	for name := range before {
		if strings.HasPrefix(name, "large-") { // 9 cores in all
			c.Kubectl(t, "", "patch", "pod", name, "-n", ns, "--subresource=resize", "-p", `{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"3"}}}]}}`)
		}
	}
	deferred := func() (n int) {
		for _, p := range c.Pods(ns) {
			if slices.ContainsFunc(p.Status.Conditions, func(k v1.PodCondition) bool {
				return k.Type == v1.PodResizePending && k.Reason == v1.PodReasonDeferred
			}) {
				n++
			}
		}
		return n
	}
	e2e.Wait(t, "the deferred resize", func() (string, bool) { return fmt.Sprint(deferred()), deferred() == 1 })

	c.Kubectl(t, "{apiVersion: sigma-scheduler.io/v1alpha1, kind: Rebalance, metadata: {name: nightly}, spec: {goal: Fit, every: 1m, moves: \"5\"}}", "apply", "-f", "-")
	r := waitRebalance(t, c, "nightly", "the dry run", func(r v1alpha1.Rebalance) bool { return r.Status.Plan != nil && *r.Status.Plan.Over == 1 })
	require.Len(t, r.Status.Plan.Leaves, 1)
	m := r.Status.Plan.Leaves[0]
	require.Equal(t, [2]string{"tight", "other"}, [2]string{m.From, m.To})
	require.Regexp(t, "^"+ns+"/middle-", m.Pod)
	require.Equal(t, before, c.Placements(ns))

	c.Kubectl(t, "", "patch", "rebalance", "nightly", "--type=merge", "-p", `{"spec":{"mode":"Auto"}}`)
	r = waitRebalance(t, c, "nightly", "the move, and the plan after it", func(r v1alpha1.Rebalance) bool {
		return conditionOf(r.Status.Conditions, v1alpha1.ConditionProgressing).Reason == "Done" && *r.Status.Plan.Over == 0
	})
	require.Len(t, r.Status.Today, 1)
	require.Equal(t, m.Pod, r.Status.Today[0].Pod)
	e2e.Wait(t, "the resize", func() (string, bool) { return fmt.Sprint(deferred()), deferred() == 0 })
	c.Kubectl(t, "", "patch", "rebalance", "nightly", "--type=merge", "-p", `{"spec":{"suspend":true}}`)
	waitRebalance(t, c, "nightly", "the way back", func(r v1alpha1.Rebalance) bool {
		return conditionOf(r.Status.Conditions, v1alpha1.ConditionStopped).Reason == "Suspended"
	})
	after := c.Placements(ns)
	require.Len(t, after, 6)
	for name, node := range after {
		if before[name] == "" {
			require.Equal(t, "other", node, name)
			delete(after, name)
		}
	}
	require.Len(t, after, 5, "one pod moved")
	require.Empty(t, cordoned(t, c))
	c.RequireFits(t)
	requireSound(t, s)
}
