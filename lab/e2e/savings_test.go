//go:build e2e

package e2e_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sigma-scheduler/sigma/lab/e2e"
)

// savingsApps creates workloads with constraints of all kinds, each fourth with a budget, and shrinks them.
func savingsApps(t *testing.T, c *e2e.Cluster, ns string) {
	t.Helper()
	const replicas = 6
	apps := 9
	for i := range apps {
		name := fmt.Sprintf("app-%d", i)
		d := e2e.Deployment(ns, name, replicas, fmt.Sprintf("%dm", 300+150*(i%4)), "256Mi")
		spec, same := &d.Spec.Template.Spec, &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
		switch i % 5 {
		case 0:
			spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: same}}
		case 1:
			spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{LabelSelector: same, TopologyKey: v1.LabelHostname}}}}
		case 2:
			spec.NodeSelector = map[string]string{"pool": "dear"}
			spec.Tolerations = []v1.Toleration{{Key: "pool", Operator: v1.TolerationOpExists}}
		case 3:
			spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 9000 + int32(i), HostPort: 9000 + int32(i)}}
		}
		c.CreateDeployment(t, d)
		budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: same}}
		switch i % 4 {
		case 0:
			budget.Spec.MaxUnavailable = new(intstr.FromInt32(1))
		case 1:
			budget.Spec.MinAvailable = new(intstr.FromString("100%"))
		default:
			continue
		}
		_, err := c.Client.PolicyV1().PodDisruptionBudgets(ns).Create(t.Context(), budget, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	c.WaitRunning(t, ns, apps*replicas)
	for i := range apps {
		c.Kubectl(t, "", "scale", "-n", ns, "deployment", fmt.Sprintf("app-%d", i), fmt.Sprint("--replicas=", 2+i%2))
	}
	left := apps*2 + apps/2
	e2e.Wait(t, "the pods that stay", func() (string, bool) { n := len(c.Pods(ns)); return fmt.Sprint(n), n == left })
}

// settled waits until a Deployment has its pods again, and its budget knows of them.
func settled(t *testing.T, c *e2e.Cluster, ns, name string) {
	t.Helper()
	e2e.Wait(t, "the pods of "+name, func() (string, bool) {
		d, err := c.Client.AppsV1().Deployments(ns).Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		if d.Status.ReadyReplicas < *d.Spec.Replicas || d.Status.TerminatingReplicas != nil && *d.Status.TerminatingReplicas > 0 {
			return fmt.Sprint(d.Status), false
		}
		list, err := c.Client.PolicyV1().PodDisruptionBudgets(ns).List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		require.NoError(t, err)
		for i := range list.Items {
			if s := &list.Items[i].Status; s.ExpectedPods != *d.Spec.Replicas || s.CurrentHealthy != *d.Spec.Replicas || len(s.DisruptedPods) > 0 {
				return fmt.Sprint(s), false
			}
		}
		return "", true
	})
}

// TestSavingsMovesAreAdmitted carries out the moves of the first line of `sigma savings`, which reads what kubectl writes:
// the API server admits each eviction, budgets included, and upstream's scheduler each target, and in the end
// the nodes are free that the bill counts.
func TestSavingsMovesAreAdmitted(t *testing.T) {
	c := e2e.Shared(t)
	ns := c.Namespace(t)
	var nodes []*v1.Node
	for i := range 12 {
		n := e2e.Node(fmt.Sprintf("node-%02d", i), "4", "8Gi")
		n.Labels[v1.LabelTopologyZone], n.Labels[v1.LabelTopologyRegion], n.Labels[v1.LabelInstanceTypeStable] = fmt.Sprintf("zone-%d", i%3), "us-east-1", "m5.xlarge"
		if i >= 9 {
			n.Labels["pool"] = "dear"
			n.Spec.Taints = []v1.Taint{{Key: "pool", Value: "dear", Effect: v1.TaintEffectNoSchedule}}
		}
		nodes = append(nodes, n)
	}
	c.CreateNodes(t, nodes...)
	c.StartScheduler(t, "kube-scheduler", "")
	savingsApps(t, c, ns)
	for i := range 9 {
		settled(t, c, ns, fmt.Sprintf("app-%d", i))
	}

	t.Chdir(t.TempDir())
	dump := c.Kubectl(t, "", "get", "nodes,pods,deployments,statefulsets,replicasets,jobs,cronjobs,hpa,pdb", "-A", "-o", "json")
	require.NoError(t, os.WriteFile("dump.json", []byte(dump), 0o600))
	sigma := func(args ...string) []byte {
		out, err := exec.Command(e2e.Program(t, "sigma"), args...).Output()
		require.NoError(t, err, "sigma %v: %s", args, out)
		return out
	}
	var bill struct {
		Steps []struct {
			Cause, Command string
			Nodes          int
			Money          struct{ Mean float64 }
		}
	}
	require.NoError(t, json.Unmarshal(sigma("savings", "--from", "dump.json", "--format", "json"), &bill))
	step := bill.Steps[0]
	require.Equal(t, "moves", step.Cause)
	require.Positive(t, step.Nodes)
	require.InDelta(t, float64(step.Nodes)*.192*730, step.Money.Mean, .01, "all nodes have one price")
	sigma("snapshot", "--from", "dump.json", "--out", "snap")
	sigma(strings.Fields(step.Command)[1:]...)
	file, err := os.Open("moves.csv")
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	moves, err := csv.NewReader(file).ReadAll()
	require.NoError(t, err)
	require.Greater(t, len(moves), 2, "the first is the head")

	present := map[string]string{} // the pod that took the place of one
	deployments := map[string]bool{}
	for _, move := range moves[1:] {
		name, from, to := move[1], move[4], move[5]
		if now := present[name]; now != "" {
			name = now
		}
		_, short, _ := strings.Cut(name, "/")
		pod, err := c.Client.CoreV1().Pods(ns).Get(t.Context(), short, metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, from, pod.Spec.NodeName, "%v", move)
		app := pod.Labels["app"]
		deployments[app] = true
		for _, n := range nodes { // the scheduler may take the target alone
			c.Cordon(t, n.Name, n.Name != to)
		}
		before := c.Placements(ns)
		require.NoError(t, c.Client.PolicyV1().Evictions(ns).Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: short}}), "%v", move)
		settled(t, c, ns, app)
		e2e.Wait(t, "the pod in place of "+short, func() (string, bool) {
			for other, node := range c.Placements(ns) {
				if _, old := before[other]; !old && node != "" {
					require.Equal(t, to, node, "%v", move)
					present[move[1]] = ns + "/" + other
					return "", true
				}
			}
			return fmt.Sprint(move), false
		})
	}
	t.Logf("%d moves of %d workloads", len(moves)-1, len(deployments))
	used := map[string]bool{}
	for _, node := range c.Placements(ns) {
		require.NotEmpty(t, node)
		used[node] = true
	}
	require.Equal(t, len(nodes)-step.Nodes, len(used))
}
