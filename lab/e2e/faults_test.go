//go:build e2e

package e2e_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// sharedRules are of faultRules and identityRules.
const sharedRules = `
apiVersion: sigma-scheduler.io/v1alpha1
kind: PlacementRule
metadata: {name: few}
spec: {selector: {matchLabels: {few: "yes"}}, maxPerNode: 2}
---
apiVersion: sigma-scheduler.io/v1alpha1
kind: PlacementRule
metadata: {name: apart}
spec: {selector: {matchLabels: {loud: "yes"}}, excludes: [{selector: {matchLabels: {quiet: "yes"}}}, {selector: {matchLabels: {few: "yes"}}, max: 1}]}
---
`

const faultRules = sharedRules + `
apiVersion: sigma-scheduler.io/v1alpha1
kind: PlacementRule
metadata: {name: one}
spec: {selector: {matchLabels: {one: "yes"}}, maxPerNode: 1}
---
apiVersion: sigma-scheduler.io/v1alpha1
kind: PlacementRule
metadata: {name: wide}
spec: {selector: {matchLabels: {wide: "yes"}}, spreadMin: 4}
`

// A scene is a cluster in which Sigma works while something fails. It has rules,
// pods that the rules select, and a few pods that have to wait.
type scene struct {
	c     *e2e.Cluster
	ns    string
	proxy *e2e.APIProxy
	pods  []*v1.Pod // with room for all of them
	made  int       // how many of these exist
	// Of those, how many were deleted, by app.
	gone map[string]int
}

const sceneNodes = 40

// The pods that have to wait: of five with one to a node, two beyond three nodes, and
// one that is larger than a node.
const (
	stuck, stuckOn = 5, 3
	waiting        = stuck - stuckOn + 1
)

func newScene(t *testing.T) *scene {
	t.Helper()
	c := e2e.Shared(t)
	installSigma(t, c)
	applyPolicy(t, c, "general-k1", "general")
	c.Kubectl(t, faultRules, "apply", "-f", "-")
	s := &scene{c: c, ns: c.Namespace(t), proxy: c.StartProxy(t, "scheduler.kubeconfig"), gone: map[string]int{}}
	nodes := e2e.Nodes(11, sceneNodes)
	for _, node := range nodes[:stuckOn] {
		node.Labels["stuck"] = "here"
	}
	c.CreateNodes(t, nodes...)
	s.pods = e2e.Pods(s.ns, 11, 400)
	for i, pod := range s.pods {
		pod.Labels[[]string{"few", "one", "loud", "quiet", "wide", "free"}[i/10%6]] = "yes"
	}
	requireNodesKept(t, c)
	return s
}

// requireNodesKept fails the test when a pod that has a node gets another one.
func requireNodesKept(t *testing.T, c *e2e.Cluster) {
	t.Helper()
	var mu sync.Mutex
	var moved []string
	factory := informers.NewSharedInformerFactory(c.Client, 0)
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, after any) {
			old, now := before.(*v1.Pod), after.(*v1.Pod)
			if old.UID == now.UID && old.Spec.NodeName != "" && old.Spec.NodeName != now.Spec.NodeName {
				mu.Lock()
				defer mu.Unlock()
				moved = append(moved, fmt.Sprintf("%s: %s, then %s", now.Name, old.Spec.NodeName, now.Spec.NodeName))
			}
		},
	})
	require.NoError(t, err)
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	t.Cleanup(func() {
		factory.Shutdown()
		require.Empty(t, moved)
	})
}

// config is Sigma's configuration, with a decision log, through the proxy.
func (s *scene) config(log string, qps int) string {
	return sigmaConfig(false, "appLabel: app, decisionLog: "+log) +
		fmt.Sprintf("clientConnection: {kubeconfig: %s, qps: %d, burst: 1}\n", s.proxy.Kubeconfig, qps)
}

// more creates the next n pods.
func (s *scene) more(t *testing.T, n int) {
	t.Helper()
	s.c.CreatePods(t, s.pods[s.made:s.made+n]...)
	s.made += n
}

func (s *scene) there() int {
	n := s.made
	for _, gone := range s.gone {
		n -= gone
	}
	return n
}

// block creates the pods of which some have to wait, and waits until they do.
func (s *scene) block(t *testing.T) {
	t.Helper()
	pods := []*v1.Pod{e2e.Pod(s.ns, "large", "500", "0")}
	for i := range stuck {
		pod := e2e.Pod(s.ns, fmt.Sprintf("stuck-%d", i), "1m", "1Mi")
		pod.Labels = map[string]string{"app": "stuck", "one": "yes"}
		pod.Spec.NodeSelector = map[string]string{"stuck": "here"}
		pods = append(pods, pod)
	}
	s.c.CreatePods(t, pods...)
	s.c.WaitRefused(t, s.ns, waiting)
}

// settle waits until every pod has a node, but for those that have to wait, and checks
// the result.
func (s *scene) settle(t *testing.T) {
	t.Helper()
	s.c.WaitBound(t, s.ns, s.there()+stuckOn)
	e2e.Wait(t, "reasons", func() (string, bool) {
		var wrong []string
		for _, pod := range s.c.Pods(s.ns) {
			if pod.Spec.NodeName != "" {
				continue
			}
			why := e2e.Condition(pod, v1.PodScheduled)
			want := fmt.Sprintf("0/%d nodes are available: %d Insufficient cpu.", sceneNodes, sceneNodes)
			if pod.Name != "large" {
				want = fmt.Sprintf("0/%d nodes are available: %d placement rule one: at most 1 of %s/stuck on a node, %d node(s) didn't match Pod's node affinity/selector.",
					sceneNodes, stuckOn, s.ns, sceneNodes-stuckOn)
			}
			if why.Reason != v1.PodReasonUnschedulable || len(why.Message) < len(want) || why.Message[:len(want)] != want {
				wrong = append(wrong, fmt.Sprintf("%s: %s %q, want %q", pod.Name, why.Reason, why.Message, want))
			}
		}
		return fmt.Sprint(wrong), len(wrong) == 0
	})
	require.Len(t, s.c.Pods(s.ns), s.there()+stuck+1)
	require.Len(t, s.c.Placements(s.ns), s.there()+stuckOn)
	s.proxy.RequireBoundOnce(t)
	s.c.RequireFits(t)
	s.requireRules(t)
}

// requireRules counts the pods against faultRules independently of Sigma.
func (s *scene) requireRules(t *testing.T) {
	t.Helper()
	type app struct{ node, name string }
	count, nodesOf, podsOf := map[app]int{}, map[string]int{}, map[string]int{}
	labels := map[string]map[string]string{}
	for _, p := range s.c.Pods(s.ns) {
		if p.Spec.NodeName == "" {
			continue
		}
		name := p.Labels["app"]
		labels[name] = p.Labels
		podsOf[name]++
		if count[app{p.Spec.NodeName, name}]++; count[app{p.Spec.NodeName, name}] == 1 {
			nodesOf[name]++
		}
	}
	for at, n := range count {
		if labels[at.name]["one"] == "yes" {
			require.LessOrEqual(t, n, 1, at)
		}
		if labels[at.name]["few"] == "yes" {
			require.LessOrEqual(t, n, 2, at)
		}
		if labels[at.name]["loud"] != "yes" {
			continue
		}
		for other, m := range count {
			if other.node != at.node {
				continue
			}
			require.NotEqual(t, "yes", labels[other.name]["quiet"], "%v and %v", at, other)
			if labels[other.name]["few"] == "yes" {
				require.LessOrEqual(t, m, 1, "%v and %v", at, other)
			}
		}
	}
	for name, n := range nodesOf {
		// Deletions may leave an app on fewer nodes than it was placed on.
		if labels[name]["wide"] == "yes" && s.gone[name] == 0 {
			require.GreaterOrEqual(t, n, min(4, podsOf[name]), name)
		}
	}
}

// requireSound checks a scheduler's metrics.
func requireSound(t *testing.T, s *e2e.Scheduler) {
	t.Helper()
	for _, name := range []string{"sigma_state_restarts_total", "sigma_decision_log_errors_total", "sigma_rule_conflicts_total"} {
		require.Zero(t, s.Metric(t, name), name)
	}
}

// requireLog computes a log's decisions again.
func requireLog(t *testing.T, log string) *ledger.Verdict {
	t.Helper()
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	v, err := ledger.Verify(log, bytes.NewReader(text))
	require.NoError(t, err)
	require.Nil(t, v.First, "%v", v.First)
	require.Equal(t, v.Causes[ledger.CausePolicy]+v.Causes[ledger.CauseNoWindow]+v.Causes[ledger.CausePlanned], v.Agreed)
	t.Logf("%s: %d starts, %d lines cut off, decisions by cause %v", filepath.Base(log), v.Starts, v.CutOff, v.Causes)
	return v
}

// atWork waits until n more pods are bound, and some are not.
func (s *scene) atWork(t *testing.T, n int) {
	t.Helper()
	require.Less(t, s.c.WaitMoreBound(t, s.ns, n), s.made, "too fast: what fails would meet nothing")
}

// The API server and etcd die, and the API server hangs, while pods are placed.
// Bindings are under way then, but none has arrived; another test has bindings without
// an answer.
func TestControlPlaneFails(t *testing.T) {
	s := newScene(t)
	log := filepath.Join(t.TempDir(), "decisions.jsonl")
	sigma := s.c.StartScheduler(t, scheduler, s.config(log, 40))
	s.block(t)
	sigma.Signal(t, syscall.SIGSTOP) // a slow machine would place most before all exist
	s.more(t, 300)
	sigma.Signal(t, syscall.SIGCONT)
	for _, program := range []string{"kube-apiserver", "etcd"} {
		s.atWork(t, 20)
		release := s.proxy.Hold()
		s.proxy.WaitHeld(t, 5)
		s.c.Signal(t, program, syscall.SIGKILL)
		release()
		s.c.WaitReady(t)
	}
	s.atWork(t, 20)
	s.c.Signal(t, "kube-apiserver", syscall.SIGSTOP)
	time.Sleep(3 * time.Second)
	s.c.Signal(t, "kube-apiserver", syscall.SIGCONT)

	s.settle(t)
	requireSound(t, sigma)
	requireLog(t, log)
	require.NotZero(t, sigma.Metric(t, "sigma_unclear_bindings_total", `outcome="bound"`), "no answer was lost")
}

// The scheduler dies with bindings under way, some of which arrive, and in the middle
// of a line of its log.
func TestSchedulerKilledBetweenReserveAndBind(t *testing.T) {
	s := newScene(t)
	log := filepath.Join(t.TempDir(), "decisions.jsonl")
	sigma := s.c.StartScheduler(t, scheduler, s.config(log, 10000))
	s.block(t)
	const kills = 3
	for range kills {
		release := s.proxy.Hold()
		s.more(t, 50)
		s.proxy.WaitHeld(t, 20)
		before := len(s.c.Placements(s.ns))
		sigma.Kill(t)
		s.c.WaitBound(t, s.ns, before+10)
		s.proxy.WaitHeld(t, 0)
		release()
		file, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = file.WriteString(`{"seq":9,"kind":"deci`)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		sigma.Restart(t)
		sigma.WaitReady(t)
		s.c.WaitBound(t, s.ns, s.made)
	}
	s.settle(t)
	requireSound(t, sigma)
	v := requireLog(t, log)
	require.Equal(t, kills+1, v.Starts)
	require.Zero(t, v.CutOff, "the next start removes a line that has no end")
}

// Bindings are made but their answers are lost. In a profile in which upstream binds, the
// scheduler takes them for failed after it has seen the pods on their nodes; in
// TestLostAnswers Sigma binds.
func TestBindingAnswerLost(t *testing.T) {
	s := newScene(t)
	log := filepath.Join(t.TempDir(), "decisions.jsonl")
	sigma := s.c.StartScheduler(t, scheduler, strings.Replace(s.config(log, 10000), "multiPoint:", "bind: {disabled: [{name: Sigma}]}\n    multiPoint:", 1))
	s.proxy.SetLose(2 * time.Second) // within which the pods are seen, on a slow machine too
	s.block(t)                       // with three nodes on which nothing else happens
	s.more(t, 100)
	s.c.WaitBound(t, s.ns, s.made)
	s.proxy.SetLose(0)
	s.more(t, 100)
	s.settle(t)
	requireSound(t, sigma)
	v := requireLog(t, log)
	require.Zero(t, v.Refused)
	require.Zero(t, sigma.Metric(t, "sigma_unclear_bindings_total"))
}

// The leader of two schedulers dies; then the next leader hangs, and when it continues
// it no longer leads.
func TestLeaderChanges(t *testing.T) {
	s := newScene(t)
	election := fmt.Sprintf(`
leaderElection:
  leaderElect: true
  resourceNamespace: %s
  leaseDuration: 10s
  renewDeadline: 8s
  retryPeriod: 500ms
`, s.ns)
	leads := func(x *e2e.Scheduler) { // waits for it
		e2e.Wait(t, x.Name, func() (string, bool) {
			return "does not lead", x.Metric(t, "leader_election_master_status") == 1
		})
	}
	logs := []string{filepath.Join(t.TempDir(), "first.jsonl"), filepath.Join(t.TempDir(), "second.jsonl")}
	first := s.c.StartScheduler(t, scheduler, s.config(logs[0], 10000)+election)
	leads(first)
	second := s.c.StartScheduler(t, scheduler, s.config(logs[1], 10000)+election)
	s.block(t)
	s.more(t, 60)
	s.c.WaitBound(t, s.ns, s.made)

	release := s.proxy.Hold()
	s.more(t, 40)
	s.proxy.WaitHeld(t, 20)
	first.Kill(t)
	release()
	leads(second)
	s.c.WaitBound(t, s.ns, s.made)
	first.Restart(t)
	first.WaitReady(t)

	release = s.proxy.Hold()
	s.more(t, 40)
	s.proxy.WaitHeld(t, 20)
	second.Signal(t, syscall.SIGSTOP)
	release() // what it had sent arrives; the answers are lost
	leads(first)
	s.c.WaitBound(t, s.ns, s.made)
	second.Signal(t, syscall.SIGCONT)
	e2e.Wait(t, "the old leader's end", func() (string, bool) { return "", !second.Alive() })
	second.Restart(t)
	second.WaitReady(t)
	s.more(t, 20)

	s.settle(t)
	requireSound(t, first)
	requireSound(t, second)
	require.Equal(t, 2, requireLog(t, logs[0]).Starts)
	requireLog(t, logs[1])
}

// Events of pods, nodes and rules arrive late, while pods come and go.
func TestWatchLag(t *testing.T) {
	const lag = 1500 * time.Millisecond
	churn := func(t *testing.T, s *scene) {
		s.block(t)
		s.more(t, 100)
		s.c.WaitBound(t, s.ns, 50)
		for _, pod := range s.pods[:100] { // one in three makes room
			if n := len(pod.Name); pod.Name[n-1]%3 == 0 {
				zero := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
				require.NoError(t, s.c.Client.CoreV1().Pods(s.ns).Delete(t.Context(), pod.Name, zero))
				s.gone[pod.Labels["app"]]++
			}
		}
		s.more(t, 100)
		s.settle(t)
	}
	t.Run("plugin", func(t *testing.T) {
		s := newScene(t)
		log := filepath.Join(t.TempDir(), "decisions.jsonl")
		s.proxy.SetLag(func(string, int) time.Duration { return lag })
		sigma := s.c.StartScheduler(t, scheduler, s.config(log, 10000))
		churn(t, s)
		requireSound(t, sigma)
		requireLog(t, log)
	})
	t.Run("extender", func(t *testing.T) {
		s := newScene(t)
		log := filepath.Join(t.TempDir(), "decisions.jsonl")
		late := s.c.StartProxy(t, "scheduler.kubeconfig")
		late.SetLag(func(string, int) time.Duration { return lag })
		x := newExtender(t, late.Kubeconfig, "--app-label=app", "--decision-log="+log)
		s.c.StartScheduler(t, scheduler, extenderConfig(x.port)+fmt.Sprintf("clientConnection: {kubeconfig: %s}\n", s.proxy.Kubeconfig))
		churn(t, s)
		requireLog(t, log)
	})
}
