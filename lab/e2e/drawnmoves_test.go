//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
)

// startTime is how long the replacement of a moved pod may wait.
const startTime = 10 * time.Second

// A drawn cluster is one of internal/oracle's generator, whose TestDump writes it.
type drawn struct {
	Namespaces  []*v1.Namespace
	Nodes       []*v1.Node
	Deployments []*appsv1.Deployment
}

// landings is one cluster with its pods, whose waits are watched.
type landings struct {
	*testing.T
	c      *e2e.Cluster
	s      *e2e.Scheduler
	spaces []string

	scaled bool // once

	mu      sync.Mutex
	changed time.Time // the last change of the world
	waits   map[types.UID]*wait
	longest time.Duration
	late    []string
}

// A wait is one of a pod without a node.
type wait struct {
	begin         time.Time
	excused, told bool
}

// TestDrawnMoves moves pods of generated clusters by Rebalances in mode Auto: no replacement waits longer than the start time. Before each
// of SIGMA_MOVES_ROUNDS (1) the Deployments are scaled at random. With SIGMA_MOVES_CHANGE=1 labels, taints and namespaces change during a
// Rebalance. SIGMA_MOVES names the folder of the clusters; a line of each is written to SIGMA_MOVES_OUT. The cluster of the gate has at
// least one move.
func TestDrawnMoves(t *testing.T) {
	folder := os.Getenv("SIGMA_MOVES")
	if folder == "" {
		folder = filepath.Join(repository, "out", "e2e", "clusters")
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files, "hack/e2e.sh writes them")
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			var of drawn
			require.NoError(t, json.Unmarshal(text, &of))
			moveAll(t, &of)
		})
	}
}

func moveAll(t *testing.T, of *drawn) {
	l := &landings{T: t, c: e2e.Shared(t), waits: map[types.UID]*wait{}}
	installSigma(t, l.c)
	grant(t, l.c, "rebalance")
	applyPolicy(t, l.c, "kubernetes-k0", "general")
	l.s = l.c.StartScheduler(t, scheduler, sigmaConfig(false, "decisionLog: "+filepath.Join(t.TempDir(), "decisions.jsonl")))
	l.build(of)
	rounds := 1
	if text := os.Getenv("SIGMA_MOVES_ROUNDS"); text != "" {
		var err error
		rounds, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	rng, sum, unfit := rand.New(rand.NewPCG(uint64(len(of.Nodes)), uint64(len(of.Deployments)))), v1alpha1.RebalanceProgress{}, 0
	for range rounds {
		if !l.scale(of, rng) {
			t.Skip("no workload of the cluster has room")
		}
		p, refused := l.round()
		sum.Moved, sum.Freed, sum.GivenUp, unfit = sum.Moved+p.Moved, sum.Freed+p.Freed, sum.GivenUp+p.GivenUp, unfit+refused
	}
	if path := os.Getenv("SIGMA_MOVES_OUT"); path != "" {
		out, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		_, err = fmt.Fprintf(out, "%s %d %d %d %d %d %.1f %d\n", filepath.Base(t.Name()), rounds, sum.Moved, sum.Freed, sum.GivenUp, unfit, l.longest.Seconds(), len(l.late))
		require.NoError(t, err)
		require.NoError(t, out.Close())
	}
	require.Empty(t, l.late)
	if os.Getenv("SIGMA_MOVES") == "" {
		require.Positive(t, sum.Moved)
	}
	l.s.Stop(t)
}

// round carries out one plan, watched, and counts the moves that a filter refused.
func (l *landings) round() (p v1alpha1.RebalanceProgress, unfit int) {
	nodes := l.c.Nodes()
	done := make(chan struct{})
	var watching sync.WaitGroup
	l.waits, l.changed = map[types.UID]*wait{}, time.Time{}
	watching.Go(func() { l.watch(done) })
	if os.Getenv("SIGMA_MOVES_CHANGE") != "" {
		watching.Go(func() { l.change(done) })
	}
	r := l.rebalance()
	close(done)
	watching.Wait()
	events := l.c.Kubectl(l.T, "", "get", "events", "-A", "--field-selector=reason=GivenUp", "-o", `jsonpath={range .items[*]}{.message}{"\n"}{end}`)
	unfit = strings.Count(events, "does not fit on node")
	l.c.Kubectl(l.T, "", "delete", "events", "-A", "--field-selector=reason=GivenUp")
	p = *r.Status.Progress
	l.Logf("%d moved, %d freed, %d given up (%d by a filter), longest wait %v\n%s", p.Moved, p.Freed, p.GivenUp, unfit, l.longest, events)
	if !l.changed.IsZero() {
		l.restore(nodes)
	}
	return p, unfit
}

// restore gives the nodes the labels and taints that they had.
func (l *landings) restore(nodes []*v1.Node) {
	for _, had := range nodes {
		require.NoError(l, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			n, err := l.c.Client.CoreV1().Nodes().Get(l.Context(), had.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			n.Labels, n.Spec.Taints = had.Labels, had.Spec.Taints
			_, err = l.c.Client.CoreV1().Nodes().Update(l.Context(), n, metav1.UpdateOptions{})
			return err
		}))
	}
}

// build makes the objects.
func (l *landings) build(of *drawn) {
	for _, n := range of.Namespaces {
		if n.Name != "default" && n.Name != "kube-system" {
			e2e.Wait(l, "the namespace of the cluster before to be gone", func() (string, bool) {
				_, err := l.c.Client.CoreV1().Namespaces().Create(l.Context(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}, metav1.CreateOptions{})
				return n.Name, err == nil
			})
		}
		for key, value := range n.Labels {
			if key != v1.LabelMetadataName {
				l.c.Kubectl(l.T, "", "label", "--overwrite", "namespace", n.Name, key+"="+value)
			}
		}
		l.spaces = append(l.spaces, n.Name)
	}
	l.c.CreateNodes(l.T, of.Nodes...)
	for _, d := range of.Deployments {
		_, err := l.c.Client.AppsV1().Deployments(d.Namespace).Create(l.Context(), d, metav1.CreateOptions{})
		require.NoError(l, err)
	}
}

// scale gives each Deployment its most pods, leaves out the workloads of which a pod finds no node, and takes pods away: at first half of
// those of every second Deployment, then a random number of each. It reports whether a pod is left.
func (l *landings) scale(of *drawn, rng *rand.Rand) bool {
	if l.scaled {
		l.renew(of)
	}
	runs := l.settle()
	pods := 0
	for i, d := range of.Deployments {
		replicas := *d.Spec.Replicas
		switch {
		case runs[d.Namespace+"/"+d.Name] < replicas:
			replicas = 0
		case l.scaled:
			replicas = 1 + rng.Int32N(replicas)
		case !l.scaled && i%2 == 0 && replicas > 2:
			replicas = (replicas + 1) / 2
		}
		l.replicas(d, replicas)
		pods += int(replicas)
	}
	l.scaled = true
	if pods == 0 {
		return false
	}
	e2e.Wait(l, "the pods that stay", func() (string, bool) {
		list := l.c.Pods("")
		runs := 0
		for _, p := range list {
			if p.Status.Phase == v1.PodRunning {
				runs++
			}
		}
		return fmt.Sprintf("%d of %d run", runs, len(list)), runs == pods && len(list) == pods
	})
	return true
}

// renew replaces the Deployments by others with new names: a workload loses few pods within an hour, whatever its number of pods.
func (l *landings) renew(of *drawn) {
	for _, d := range of.Deployments {
		require.NoError(l, l.c.Client.AppsV1().Deployments(d.Namespace).Delete(l.Context(), d.Name, metav1.DeleteOptions{}))
	}
	e2e.Wait(l, "the pods of the round before to end", func() (string, bool) {
		n := len(l.c.Pods(""))
		return fmt.Sprint(n), n == 0
	})
	for _, d := range of.Deployments {
		d.Name += "n"
		d.Spec.Selector.MatchLabels["workload"] = d.Name
		d.Spec.Template.Labels["workload"] = d.Name
		_, err := l.c.Client.AppsV1().Deployments(d.Namespace).Create(l.Context(), d, metav1.CreateOptions{})
		require.NoError(l, err)
	}
}

func (l *landings) replicas(d *appsv1.Deployment, n int32) {
	_, err := l.c.Client.AppsV1().Deployments(d.Namespace).Patch(l.Context(), d.Name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n), metav1.PatchOptions{})
	require.NoError(l, err)
}

// settle waits until no other pod gets a node, and counts the running pods by workload.
func (l *landings) settle() map[string]int32 {
	runs := map[string]int32{}
	for still, last := time.Now(), -1; time.Since(still) < 8*time.Second; time.Sleep(time.Second) {
		n := 0
		clear(runs)
		for _, p := range l.c.Pods("") {
			if p.Status.Phase == v1.PodRunning {
				n++
				runs[p.Namespace+"/"+p.Labels["workload"]]++
			}
		}
		if n != last {
			still, last = time.Now(), n
		}
	}
	return runs
}

// watch notes pods that wait longer than the start time. It leaves out those around whose eviction the world changed: from a second before
// they were first seen to two seconds after, in which most have found their nodes.
func (l *landings) watch(done <-chan struct{}) {
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		select {
		case <-done:
			return
		case now := <-tick.C:
			l.look(now)
		}
	}
}

func (l *landings) look(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	waits := map[types.UID]*wait{}
	for _, p := range l.c.Pods("") {
		if p.Spec.NodeName != "" || p.Labels["workload"] == "" || p.DeletionTimestamp != nil {
			continue
		}
		w := l.waits[p.UID]
		if w == nil {
			w = &wait{begin: now}
		}
		waits[p.UID] = w
		w.excused = w.excused || l.changed.After(w.begin.Add(-time.Second)) && l.changed.Before(w.begin.Add(2*time.Second))
		if w.excused {
			continue
		}
		l.longest = max(l.longest, now.Sub(w.begin))
		if now.Sub(w.begin) >= startTime && !w.told {
			w.told = true
			l.late = append(l.late, fmt.Sprintf("%s/%s: %v", p.Namespace, p.Name, p.Status.Conditions))
		}
	}
	l.waits = waits
}

// change changes labels and taints of nodes, and labels of namespaces, every few seconds.
func (l *landings) change(done <-chan struct{}) {
	rng := rand.New(rand.NewPCG(1, uint64(len(l.c.Nodes()))))
	nodes := l.c.Nodes()
	for {
		select {
		case <-done:
			return
		case <-time.After(time.Duration(4000+rng.IntN(4000)) * time.Millisecond):
		}
		node := nodes[rng.IntN(len(nodes))].Name
		commands := [][]string{
			{"label", "--overwrite", "node", node, "topology.kubernetes.io/zone=" + []string{"a", "b", "c"}[rng.IntN(3)]},
			{"label", "--overwrite", "node", node, "example.com/rack=r" + fmt.Sprint(1+rng.IntN(4))},
			{"label", "node", node, "example.com/disk-"},
			{"taint", "--overwrite", "node", node, "team=red:NoSchedule"},
			{"taint", "--overwrite", "node", node, "dedicated=red:NoSchedule"},
			{"label", "--overwrite", "namespace", l.spaces[rng.IntN(len(l.spaces))], "team=" + []string{"red", "green", "blue"}[rng.IntN(3)]},
		}
		l.c.Kubectl(l.T, "", commands[rng.IntN(len(commands))]...)
		l.mu.Lock()
		l.changed = time.Now()
		l.mu.Unlock()
	}
}

// rebalance carries out one plan.
func (l *landings) rebalance() (r v1alpha1.Rebalance) {
	l.c.Kubectl(l.T, "{apiVersion: sigma-scheduler.io/v1alpha1, kind: Rebalance, metadata: {name: tidy}, spec: {mode: Auto, moves: 100%, movesPerHour: 1000, minReplicas: 1, inFlight: 3}}", "apply", "-f", "-")
	for begin := time.Now(); ; time.Sleep(time.Second) {
		r = rebalanceOf(l.T, l.c, "tidy")
		is := conditionOf(r.Status.Conditions, v1alpha1.ConditionProgressing)
		if r.Status.Progress != nil && is.Status == metav1.ConditionFalse {
			l.Logf("%s: %s %v", is.Reason, is.Message, conditionOf(r.Status.Conditions, v1alpha1.ConditionStopped).Message)
			break
		}
		require.Less(l, time.Since(begin), 20*time.Minute, "%s: %s", is.Reason, is.Message)
	}
	l.c.Kubectl(l.T, "", "delete", "rebalance", "tidy")
	e2e.Wait(l, "all emptied nodes uncordoned", func() (string, bool) {
		i := slices.IndexFunc(l.c.Nodes(), func(n *v1.Node) bool { return n.Annotations["sigma-scheduler.io/emptied"] != "" })
		return fmt.Sprint(i), i < 0
	})
	return r
}
