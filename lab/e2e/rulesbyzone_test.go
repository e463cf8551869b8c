//go:build e2e

package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/lab/e2e"
)

// A zone limit holds for nodes with the label; a node that gets it wakes the pods that wait.
func TestRulesByZone(t *testing.T) {
	c := e2e.Shared(t)
	installSigma(t, c)
	applyPolicy(t, c, "general-k1", "general")
	c.StartScheduler(t, scheduler, sigmaConfig(false, "appLabel: app"))
	c.Kubectl(t, `
apiVersion: sigma-scheduler.io/v1alpha1
kind: PlacementRule
metadata: {name: limit}
spec: {selector: {matchLabels: {app: web}}, topologyKey: topology.kubernetes.io/zone, maxPerNode: 1}
`, "apply", "-f", "-")
	ns := c.Namespace(t)
	var nodes []*v1.Node
	for _, name := range []string{"a1", "a2", "b1", "none"} {
		node := e2e.Node(name, "8", "32Gi")
		if name != "none" {
			node.Labels[v1.LabelTopologyZone] = name[:1]
		}
		nodes = append(nodes, node)
	}
	c.CreateNodes(t, nodes...)
	webs(t, c, ns, 0, 3)
	c.WaitBound(t, ns, 2)
	c.WaitRefused(t, ns, 1)
	for _, pod := range c.Pods(ns) {
		if pod.Spec.NodeName == "" {
			require.Contains(t, e2e.Condition(pod, v1.PodScheduled).Message, fmt.Sprintf(
				"1 placement rule limit: the node has no label topology.kubernetes.io/zone, 3 placement rule limit: at most 1 of %s/web in a zone.", ns))
			within(t, "event", func() (string, bool) {
				note := eventOf(t, c, pod, "FailedScheduling")
				return note, strings.Contains(note, "the node has no label topology.kubernetes.io/zone")
			})
		} else {
			require.Contains(t, []string{"a1", "a2", "b1"}, pod.Spec.NodeName)
		}
	}
	c.Kubectl(t, "", "label", "node", "none", "topology.kubernetes.io/zone=c")
	within(t, "a node gets the label", func() (string, bool) { n := boundOf(c, ns, "web"); return fmt.Sprint(n), n == 3 })
	require.Len(t, podsOn(c, ns, "none"), 1)
}

// A rule that gives way keeps a pod waiting that long, and no longer.
func TestRuleGivesWay(t *testing.T) {
	c := e2e.Shared(t)
	installSigma(t, c)
	applyPolicy(t, c, "general-k1", "general")
	c.StartScheduler(t, scheduler, sigmaConfig(false, "appLabel: app"))
	c.Kubectl(t, limitRule(1), "apply", "-f", "-")
	c.Kubectl(t, "", "patch", "placementrule", "limit", "--type=merge", "-p", `{"spec": {"afterMinutes": 1}}`)
	ns := c.Namespace(t)
	c.CreateNodes(t, e2e.Node("a", "8", "32Gi"))
	webs(t, c, ns, 0, 1)
	c.WaitBound(t, ns, 1)
	webs(t, c, ns, 1, 1)
	c.WaitRefused(t, ns, 1)
	c.WaitBound(t, ns, 2)
	late, err := c.Client.CoreV1().Pods(ns).Get(t.Context(), "web-1", metav1.GetOptions{})
	require.NoError(t, err)
	waited := time.Since(late.CreationTimestamp.Time)
	require.Greater(t, waited, time.Minute)
	require.Less(t, waited, 75*time.Second)
	within(t, "event", func() (string, bool) {
		note := eventOf(t, c, late, "RuleGaveWay")
		return note, note == fmt.Sprintf("It waited as long as the rule demands, and is placed against placement rule limit: at most 1 of %s/web on a node.", ns)
	})
}
