//go:build e2e

package e2e_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/lab/e2e"
)

// roundsOf is how often a test repeats each fault: SIGMA_ROUNDS, or once.
func roundsOf(t *testing.T) int {
	t.Helper()
	rounds, err := strconv.Atoi(cmp.Or(os.Getenv("SIGMA_ROUNDS"), "1"))
	require.NoError(t, err, "SIGMA_ROUNDS")
	return rounds
}

const podsPath, nodesPath = "/api/v1/pods", "/api/v1/nodes"

// aRound is nodes with room for one pod each, half of them by their cpu and half by a
// rule, and two pods for each node.
type aRound struct {
	c     *e2e.Cluster
	ns    string
	proxy *e2e.APIProxy
	pods  []*v1.Pod // the second half finds no room
}

const oneByOne = 4 // nodes of each kind

func newRound(t *testing.T, c *e2e.Cluster, proxy *e2e.APIProxy) *aRound {
	t.Helper()
	r := &aRound{c: c, ns: c.Namespace(t), proxy: proxy}
	var nodes []*v1.Node
	for i := range 2 * oneByOne {
		node := e2e.Node(fmt.Sprintf("%s-%d", r.ns, i), "8", "32Gi")
		node.Labels["room"] = []string{"tight", "ruled"}[i%2] + "-" + r.ns
		nodes = append(nodes, node)
	}
	c.CreateNodes(t, nodes...)
	for i := range 4 * oneByOne {
		kind := []string{"tight", "ruled"}[i%2]
		pod := e2e.Pod(r.ns, fmt.Sprintf("%s-%d", kind, i), map[string]string{"tight": "5", "ruled": "1"}[kind], "1Gi")
		pod.Labels = map[string]string{"app": kind, kind: "yes"}
		pod.Spec.NodeSelector = map[string]string{"room": kind + "-" + r.ns}
		r.pods = append(r.pods, pod)
	}
	return r
}

// requireOneEach waits until each node has a pod, and then for as long as it takes the
// scheduler to try the others again.
func (r *aRound) requireOneEach(t *testing.T, longer time.Duration) {
	t.Helper()
	r.c.WaitBound(t, r.ns, 2*oneByOne)
	time.Sleep(longer)
	on := map[string]string{}
	for pod, node := range r.c.Placements(r.ns) {
		require.Empty(t, on[node], "%s has %s too", node, pod)
		on[node] = pod
	}
	require.Len(t, on, 2*oneByOne)
	r.c.RequireFits(t)
}

// makeRoom deletes the pods that have a node: the others get theirs.
func (r *aRound) makeRoom(t *testing.T) {
	t.Helper()
	for pod := range r.c.Placements(r.ns) {
		zero := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
		require.NoError(t, r.c.Client.CoreV1().Pods(r.ns).Delete(t.Context(), pod, zero))
	}
	e2e.Wait(t, "pods to vanish", func() (string, bool) {
		n := len(r.c.Pods(r.ns))
		return fmt.Sprintf("%d left", n), n == 2*oneByOne
	})
}

// The answers to all bindings are lost, and meanwhile the watch shows nothing, or shows it
// late, or pods and nodes in another order than they came about. A scheduler that takes
// the bindings for failed puts the other pods on the nodes that are taken.
func TestLostAnswers(t *testing.T) {
	rounds := roundsOf(t)
	c := e2e.Shared(t)
	installSigma(t, c)
	applyPolicy(t, c, "general-k1", "general")
	c.Kubectl(t, `
apiVersion: sigma-scheduler.io/v1alpha1
kind: PlacementRule
metadata: {name: one}
spec: {selector: {matchLabels: {ruled: "yes"}}, maxPerNode: 1}
`, "apply", "-f", "-")
	proxy := c.StartProxy(t, "scheduler.kubeconfig")
	log := filepath.Join(t.TempDir(), "decisions.jsonl")
	sigma := c.StartScheduler(t, scheduler, (&scene{proxy: proxy}).config(log, 10000))
	const (
		lag     = 2 * time.Second
		retried = 3 * time.Second // the scheduler's back-off is one second
	)
	faults := []struct {
		name string
		run  func(*testing.T, *aRound)
	}{
		{"held", func(t *testing.T, r *aRound) {
			release := r.proxy.Hold()
			c.CreatePods(t, r.pods[:2*oneByOne]...)
			r.proxy.WaitHeld(t, 2*oneByOne)
			c.CreatePods(t, r.pods[2*oneByOne:]...)
			c.WaitRefused(t, r.ns, 2*oneByOne)
			show := r.proxy.HoldWatches(t, podsPath)
			release()
			r.requireOneEach(t, retried)
			show()
		}},
		{"late", func(t *testing.T, r *aRound) {
			r.proxy.SetLag(func(path string, _ int) time.Duration {
				if path == podsPath {
					return lag
				}
				return 0
			})
			c.CreatePods(t, r.pods...)
			r.requireOneEach(t, lag+time.Second)
		}},
		{"out of step", func(t *testing.T, r *aRound) {
			rng := rand.New(rand.NewPCG(uint64(len(c.Nodes())), 14))
			r.proxy.SetLag(func(path string, _ int) time.Duration { // within a stream the order stays
				if path == podsPath || path == nodesPath {
					return time.Duration(rng.Int64N(int64(lag)))
				}
				return 0
			})
			c.CreatePods(t, r.pods...)
			r.requireOneEach(t, lag+time.Second)
		}},
	}
	proxy.SetLose(time.Millisecond)
	lost := 0
	for _, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			for range rounds {
				r := newRound(t, c, proxy)
				fault.run(t, r)
				r.makeRoom(t)
				r.requireOneEach(t, 0)
			}
			lost += rounds * 4 * oneByOne
			e2e.Wait(t, "what became of the bindings", func() (string, bool) {
				known := int(sigma.Metric(t, "sigma_unclear_bindings_total", `outcome="bound"`))
				return fmt.Sprintf("%d of %d known", known, lost), known == lost
			})
			t.Logf("%d rounds of %d nodes: %d answers lost, no node with a pod too many", rounds, 2*oneByOne, rounds*4*oneByOne)
		})
		proxy.SetLag(nil)
	}
	proxy.SetLose(0)
	require.EqualValues(t, lost, sigma.Metric(t, "sigma_unclear_bindings_total"))
	proxy.RequireBoundOnce(t)
	requireSound(t, sigma)
	v := requireLog(t, log)
	require.Equal(t, lost, v.Decisions, "some were taken back")
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	require.NotContains(t, string(text), `"kind":"bind-failed"`)
}
