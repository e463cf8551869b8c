//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
)

// limitRule allows so many pods of the app web on a node.
func limitRule(most int) string {
	return fmt.Sprintf(`
apiVersion: sigma-scheduler.io/v1alpha1
kind: PlacementRule
metadata: {name: limit}
spec: {selector: {matchLabels: {app: web}}, maxPerNode: %d}
`, most)
}

// soon is how long the effect of an event may take: a second of backoff, and a machine
// shared by many. Without the event it takes the five minutes after which all pods are
// tried again.
const soon = time.Minute

// within waits like [e2e.Wait], not longer than soon, and logs how long it took.
func within(t *testing.T, what string, done func() (string, bool)) {
	t.Helper()
	begin := time.Now()
	e2e.Wait(t, what, done)
	took := time.Since(begin)
	t.Logf("%s: %.2f s", what, took.Seconds())
	require.Less(t, took, soon, what)
}

func boundOf(c *e2e.Cluster, ns, app string) int {
	n := 0
	for _, pod := range c.Pods(ns) {
		if pod.Labels["app"] == app && pod.Spec.NodeName != "" {
			n++
		}
	}
	return n
}

// webs creates n pods of the app web.
func webs(t *testing.T, c *e2e.Cluster, ns string, from, n int) {
	t.Helper()
	for i := range n {
		pod := e2e.Pod(ns, fmt.Sprintf("web-%d", from+i), "100m", "64Mi")
		pod.Labels = map[string]string{"app": "web"}
		c.CreatePods(t, pod)
	}
}

func label(t *testing.T, c *e2e.Cluster, ns, pod, key, value string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, key, value)
	_, err := c.Client.CoreV1().Pods(ns).Patch(t.Context(), pod, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

func remove(t *testing.T, c *e2e.Cluster, ns, pod string) {
	t.Helper()
	require.NoError(t, c.Client.CoreV1().Pods(ns).Delete(t.Context(), pod, *metav1.NewDeleteOptions(0)))
}

// webOn is a pod of the app web that stands on a node.
func webOn(t *testing.T, c *e2e.Cluster, ns, node string) string {
	t.Helper()
	for _, pod := range podsOn(c, ns, node) {
		if pod.Labels["app"] == "web" {
			return pod.Name
		}
	}
	t.Fatalf("none on %s", node)
	return ""
}

// Pods that wait for a rule are woken soon by events that can open a node to them, and
// by no others.
func TestWhatWakesPods(t *testing.T) {
	c := e2e.Shared(t)
	installSigma(t, c)
	applyPolicy(t, c, "general-k1", "general")
	c.Kubectl(t, limitRule(1), "apply", "-f", "-")
	ns := c.Namespace(t)
	c.CreateNodes(t, e2e.Node("a", "8", "32Gi"), e2e.Node("b", "8", "32Gi"), e2e.Node("c", "8", "32Gi"))
	log := filepath.Join(t.TempDir(), "decisions.jsonl")
	s := c.StartScheduler(t, scheduler, sigmaConfig(false, "appLabel: app, decisionLog: "+log))
	webs(t, c, ns, 0, 5)
	c.WaitBound(t, ns, 3)
	c.WaitRefused(t, ns, 2)
	why := fmt.Sprintf("0/3 nodes are available: 3 placement rule limit: at most 1 of %s/web on a node.", ns)
	for _, pod := range c.Pods(ns) {
		if pod.Spec.NodeName == "" {
			require.Contains(t, e2e.Condition(pod, v1.PodScheduled).Message, why)
			within(t, "event of "+pod.Name, func() (string, bool) {
				note := eventOf(t, c, pod, "FailedScheduling")
				return note, strings.HasPrefix(note, why)
			})
		}
	}

	// Unrelated events do not wake them: 30 pods come and 15 go, pods come with a node,
	// and are relabelled.
	tries := func() float64 { return s.Metric(t, "scheduler_schedule_attempts_total", `result="unschedulable"`) }
	before := tries()
	var others []*v1.Pod
	for i := range 30 {
		other := e2e.Pod(ns, fmt.Sprintf("other-%d", i), "10m", "1Mi")
		if i >= 20 {
			other.Spec.NodeName = "a"
		}
		others = append(others, other)
	}
	c.CreatePods(t, others...)
	c.WaitBound(t, ns, 33)
	for i := range 15 {
		remove(t, c, ns, others[2*i].Name)
		label(t, c, ns, others[2*i+1].Name, "tier", "none")
	}
	time.Sleep(3 * time.Second) // more than the backoff
	require.Equal(t, before, tries())

	label(t, c, ns, webOn(t, c, ns, "a"), "app", "renamed")
	within(t, "a pod in the way is of another app", func() (string, bool) { n := boundOf(c, ns, "web"); return fmt.Sprint(n), n == 3 })
	remove(t, c, ns, webOn(t, c, ns, "b"))
	within(t, "a pod in the way is deleted", func() (string, bool) {
		n := len(podsOn(c, ns, "b"))
		w := boundOf(c, ns, "web")
		return fmt.Sprint(n, w), w == 3
	})

	webs(t, c, ns, 10, 5)
	c.WaitRefused(t, ns, 5)
	c.CreateNodes(t, e2e.Node("d", "8", "32Gi"))
	within(t, "a node comes", func() (string, bool) { n := boundOf(c, ns, "web"); return fmt.Sprint(n), n == 4 })
	c.Kubectl(t, limitRule(2), "apply", "-f", "-")
	within(t, "the rule is changed", func() (string, bool) { n := boundOf(c, ns, "web"); return fmt.Sprint(n), n == 8 })
	webs(t, c, ns, 20, 3)
	c.WaitRefused(t, ns, 3)
	waits := "web-20"
	label(t, c, ns, waits, "app", "own")
	within(t, "the pod itself is of another app", func() (string, bool) { return "", c.Placements(ns)[waits] != "" })
	c.Kubectl(t, "", "delete", "placementrule", "limit")
	within(t, "the rule is deleted", func() (string, bool) { n := boundOf(c, ns, "web"); return fmt.Sprint(n), n == 10 })

	// A rule that comes while pods wait for room holds when there is some.
	for i := range 4 {
		pod := e2e.Pod(ns, fmt.Sprintf("large-%d", i), "15", "1Gi")
		pod.Labels = map[string]string{"app": "large"}
		c.CreatePods(t, pod)
	}
	c.WaitRefused(t, ns, 4)
	c.Kubectl(t, strings.ReplaceAll(limitRule(1), "app: web", "app: large"), "apply", "-f", "-")
	within(t, "the new rule is known", func() (string, bool) { // nodes arrive on another watch
		status := ruleStatus(t, c, "limit")
		return fmt.Sprint(status), status.ObservedGeneration == 1
	})
	c.CreateNodes(t, e2e.Node("x", "64", "64Gi"), e2e.Node("y", "64", "64Gi"))
	within(t, "room, and a new rule", func() (string, bool) { n := boundOf(c, ns, "large"); return fmt.Sprint(n), n == 2 })
	c.WaitRefused(t, ns, 2)
	require.Len(t, podsOn(c, ns, "x"), 1)
	require.Len(t, podsOn(c, ns, "y"), 1)

	for _, pod := range c.Pods(ns) {
		if pod.Spec.NodeName == "" {
			remove(t, c, ns, pod.Name)
		}
	}
	time.Sleep(time.Second)
	// A rule that comes where pods stand against it: its status has no conflicts before
	// the nodes are read, and the right number afterwards.
	c.Kubectl(t, limitRule(1), "apply", "-f", "-")
	within(t, "the rule is known", func() (string, bool) {
		status := ruleStatus(t, c, "limit")
		return fmt.Sprint(status), status.ObservedGeneration == 2
	})
	time.Sleep(3 * time.Second)
	for _, condition := range ruleStatus(t, c, "limit").Conditions {
		if condition.ObservedGeneration == 2 {
			require.NotEqual(t, "The rule holds on all nodes.", condition.Message)
		}
	}
	c.CreatePods(t, e2e.Pod(ns, "next", "10m", "1Mi"))
	within(t, "conflicts with a new rule", func() (string, bool) {
		status := ruleStatus(t, c, "limit")
		over := 0
		for _, node := range c.Nodes() {
			n := 0
			for _, pod := range podsOn(c, ns, node.Name) {
				if pod.Labels["app"] == "web" {
					n++
				}
			}
			if n > 1 {
				over++
			}
		}
		return fmt.Sprint(over, status), over > 0 && int(status.Conflicts) == over
	})
	c.RequireFits(t)
	requireSound(t, s)
	requireLog(t, log)
}

// eventOf is the text of the newest event about a pod with that reason.
func eventOf(t *testing.T, c *e2e.Cluster, pod *v1.Pod, reason string) string {
	t.Helper()
	list, err := c.Client.EventsV1().Events(pod.Namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	note := ""
	for _, event := range list.Items {
		if event.Regarding.UID == pod.UID && event.Reason == reason {
			note = event.Note
		}
	}
	return note
}

// A rule reaches the scheduler on two watches, one to wake pods and one to decide by
// it. Whichever is late, the pods are placed.
func TestRuleIsHeardLate(t *testing.T) {
	c := e2e.Shared(t)
	installSigma(t, c)
	ns := c.Namespace(t)
	p := c.StartProxy(t, "scheduler.kubeconfig")
	c.CreateNodes(t, e2e.Node("a", "8", "32Gi"))
	c.Kubectl(t, limitRule(1), "apply", "-f", "-")
	c.StartScheduler(t, scheduler, sigmaConfig(false, "appLabel: app")+fmt.Sprintf("clientConnection: {kubeconfig: %s}\n", p.Kubeconfig))
	webs(t, c, ns, 0, 4)
	c.WaitRefused(t, ns, 3)
	const rules = "/apis/sigma-scheduler.io/v1alpha1/placementrules"
	e2e.Wait(t, "both watches", func() (string, bool) { n := p.Streams(rules); return fmt.Sprint(n), n >= 2 })
	require.Equal(t, 2, p.Streams(rules))
	for late := 1; late <= 2; late++ {
		p.SetLag(func(path string, stream int) time.Duration {
			if path == rules && stream == late {
				return 1500 * time.Millisecond
			}
			return 0
		})
		c.Kubectl(t, limitRule(1+late), "apply", "-f", "-")
		within(t, fmt.Sprintf("stream %d is late", late), func() (string, bool) { n := boundOf(c, ns, "web"); return fmt.Sprint(n), n == 1+late })
		time.Sleep(2 * time.Second) // the late one comes
	}
}

// Another scheduler places pods on the same nodes against a rule: Sigma reports it at
// once and adds no pod there. A second Sigma that does not lead does not overwrite the
// status.
func TestForeignScheduler(t *testing.T) {
	c := e2e.Shared(t)
	installSigma(t, c)
	applyPolicy(t, c, "general-k1", "general")
	c.Kubectl(t, limitRule(1), "apply", "-f", "-")
	c.Kubectl(t, `
apiVersion: sigma-scheduler.io/v1alpha1
kind: PlacementRule
metadata: {name: apart}
spec: {selector: {matchLabels: {app: loud}}, excludes: [{selector: {matchLabels: {app: quiet}}}]}
`, "apply", "-f", "-")
	ns := c.Namespace(t)
	c.CreateNodes(t, e2e.Node("a", "8", "32Gi"), e2e.Node("b", "8", "32Gi"), e2e.Node("c", "8", "32Gi"))
	config := sigmaConfig(false, "appLabel: app") + fmt.Sprintf("leaderElection: {leaderElect: true, resourceNamespace: %s}\n", ns)
	s := c.StartScheduler(t, scheduler, config)
	webs(t, c, ns, 0, 3)
	loud := e2e.Pod(ns, "loud", "100m", "64Mi")
	loud.Spec.NodeSelector = map[string]string{v1.LabelHostname: "c"}
	c.CreatePods(t, loud)
	c.WaitBound(t, ns, 4)
	c.StartScheduler(t, scheduler, config) // stands by
	c.StartScheduler(t, "kube-scheduler", "profiles: [{schedulerName: stock}]")
	require.Zero(t, s.Metric(t, "sigma_rule_conflicts_total"))
	require.Zero(t, ruleStatus(t, c, "limit").Conflicts)

	stock := e2e.Pod(ns, "stock", "100m", "64Mi")
	stock.Labels = map[string]string{"app": "web"}
	stock.Spec.SchedulerName, stock.Spec.NodeSelector = "stock", map[string]string{v1.LabelHostname: "a"}
	c.CreatePods(t, stock)
	within(t, "the other scheduler's pod is counted", func() (string, bool) {
		n := s.Metric(t, "sigma_rule_conflicts_total", `rule="limit"`)
		return fmt.Sprint(n), n == 1
	})
	require.Equal(t, "a", c.Placements(ns)["stock"])
	direct := e2e.Pod(ns, "direct", "100m", "64Mi")
	direct.Labels = map[string]string{"app": "web"}
	direct.Spec.NodeName = "b"
	quiet := e2e.Pod(ns, "quiet", "100m", "64Mi")
	quiet.Spec.NodeName = "c"
	c.CreatePods(t, direct, quiet)
	within(t, "pods that come with a node are counted", func() (string, bool) {
		limit, apart := s.Metric(t, "sigma_rule_conflicts_total", `rule="limit"`), s.Metric(t, "sigma_rule_conflicts_total", `rule="apart"`)
		return fmt.Sprint(limit, apart), limit == 2 && apart == 1
	})
	for _, pod := range c.Pods(ns) {
		if pod.Name == "stock" || pod.Name == "direct" || pod.Name == "quiet" {
			within(t, "event of "+pod.Name, func() (string, bool) {
				note := eventOf(t, c, pod, "RuleConflict")
				return note, strings.Contains(note, "placement rule ")
			})
		}
	}
	conflicts := func(rule string, want int32) {
		t.Helper()
		within(t, fmt.Sprintf("status of rule %s: %d", rule, want), func() (string, bool) {
			status := ruleStatus(t, c, rule)
			state := metav1.ConditionFalse
			if want > 0 {
				state = metav1.ConditionTrue
			}
			for _, condition := range status.Conditions {
				if condition.Type == v1alpha1.ConditionConflicting {
					return fmt.Sprint(status), condition.Status == state && status.Conflicts == want
				}
			}
			return fmt.Sprint(status), false
		})
	}
	conflicts("limit", 2)
	conflicts("apart", 1)

	// No pod is added, and the reason is in its status.
	webs(t, c, ns, 3, 1)
	c.WaitRefused(t, ns, 1)
	require.Contains(t, e2e.Condition(podNamed(t, c, ns, "web-3"), v1.PodScheduled).Message,
		fmt.Sprintf("3 placement rule limit: at most 1 of %s/web on a node", ns))
	// Both write the status of a new version; the standby knows no conflicts.
	c.Kubectl(t, "", "patch", "placementrule", "limit", "--type=merge", "-p", `{"spec":{"spreadMin":2}}`)
	within(t, "the new version", func() (string, bool) {
		status := ruleStatus(t, c, "limit")
		return fmt.Sprint(status), status.ObservedGeneration == 2
	})
	time.Sleep(5 * time.Second) // both have written
	conflicts("limit", 2)
	c.CreateNodes(t, e2e.Node("d", "8", "32Gi"))
	within(t, "a node for the pod that waited", func() (string, bool) { return "", c.Placements(ns)["web-3"] == "d" })
	require.EqualValues(t, 2, s.Metric(t, "sigma_rule_conflicts_total", `rule="limit"`))

	remove(t, c, ns, "stock")
	remove(t, c, ns, "direct")
	remove(t, c, ns, "quiet")
	next := 0
	e2e.Wait(t, "the end of the conflicts", func() (string, bool) { // nodes are read when a pod is placed
		c.CreatePods(t, e2e.Pod(ns, fmt.Sprintf("next-%d", next), "10m", "16Mi"))
		next++
		time.Sleep(time.Second)
		limit, apart := ruleStatus(t, c, "limit").Conflicts, ruleStatus(t, c, "apart").Conflicts
		return fmt.Sprint(limit, apart), limit == 0 && apart == 0
	})
	conflicts("limit", 0)
	conflicts("apart", 0)
	require.EqualValues(t, 3, s.Metric(t, "sigma_rule_conflicts_total"))
	require.Zero(t, s.Metric(t, "sigma_state_restarts_total"))
}

func podNamed(t *testing.T, c *e2e.Cluster, ns, name string) *v1.Pod {
	t.Helper()
	for _, pod := range c.Pods(ns) {
		if pod.Name == name {
			return pod
		}
	}
	t.Fatalf("no pod %s", name)
	return nil
}

func ruleStatus(t *testing.T, c *e2e.Cluster, name string) v1alpha1.PlacementRuleStatus {
	t.Helper()
	o, err := c.Dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("placementrules")).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	var rule v1alpha1.PlacementRule
	decode(t, o.Object, &rule)
	return rule.Status
}

func decode(t *testing.T, from map[string]any, into any) {
	t.Helper()
	text, err := json.Marshal(from)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, into))
}
