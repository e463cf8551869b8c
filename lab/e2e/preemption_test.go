//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/sigma-scheduler/sigma/lab/e2e"
)

// A crowd is a cluster in which each node has a little room, and pods of high priority that fit on none.
type crowd struct {
	seed      uint64
	important int  // pods of 4 cores
	apart     bool // each comes when the one before has its node; else all at once
}

const crowdNodes, crowdWorkloads, crowdReplicas = 36, 60, 4

func (w crowd) String() string {
	how := "all at once"
	if w.apart {
		how = "one after the other"
	}
	return fmt.Sprintf("seed %d, %d pods %s", w.seed, w.important, how)
}

// disrupted are the pods that were ended for others, and how many of the crowd wait at the end.
type disrupted struct{ placed, preempted, moved, waiting int }

// fill makes the workloads' pods and binds them: the next to the node with the most room, whoever schedules later.
func (w crowd) fill(t *testing.T, c *e2e.Cluster, ns string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(w.seed, 36))
	free := map[string]int64{}
	for i := range crowdNodes {
		n := e2e.Node(fmt.Sprintf("n%02d", i), "8", "64Gi")
		free[n.Name] = 8000
		c.CreateNodes(t, n)
	}
	milli := map[string]int64{}
	for i := range crowdWorkloads {
		name := fmt.Sprintf("app-%02d", i)
		milli[name] = 500 + 250*rng.Int64N(5)
		c.CreateDeployment(t, e2e.Deployment(ns, name, crowdReplicas, fmt.Sprint(milli[name], "m"), "1Gi"))
	}
	e2e.Wait(t, "the pods", func() (string, bool) {
		n := len(c.Pods(ns))
		return fmt.Sprint(n), n == crowdWorkloads*crowdReplicas
	})
	pods := map[string][]string{}
	for _, p := range c.Pods(ns) {
		pods[p.Labels["app"]] = append(pods[p.Labels["app"]], p.Name)
	}
	for r := range crowdReplicas {
		for i := range crowdWorkloads {
			app, most := fmt.Sprintf("app-%02d", i), "n00"
			for j := range crowdNodes {
				if node := fmt.Sprintf("n%02d", j); free[node] > free[most] {
					most = node
				}
			}
			free[most] -= milli[app]
			require.NoError(t, c.Client.CoreV1().Pods(ns).Bind(t.Context(), &v1.Binding{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: pods[app][r]}, Target: v1.ObjectReference{Kind: "Node", Name: most},
			}, metav1.CreateOptions{}))
		}
	}
	c.WaitRunning(t, ns, crowdWorkloads*crowdReplicas)
}

// run lets a scheduler place the pods of high priority.
func (w crowd) run(t *testing.T, config string, repairs bool) (d disrupted) {
	c := e2e.Shared(t)
	defer c.Wipe(t)
	installSigma(t, c)
	if repairs {
		grantRepair(t, c)
	}
	applyPolicy(t, c, "kubernetes-k0", "general")
	if repairs {
		c.Kubectl(t, "", "patch", "placementpolicy", "general", "--type=merge", "-p", `{"spec":{"repair":{"mode":"Enabled","movesPerHour":1000}}}`)
	}
	ns := c.Namespace(t)
	w.fill(t, c, ns)
	ended := countDisrupted(t, c)
	s := c.StartScheduler(t, scheduler, config)
	large := func() (n int) {
		for _, p := range c.Pods(ns) {
			if p.Spec.NodeName != "" && strings.HasPrefix(p.Name, "large") {
				n++
			}
		}
		return n
	}
	for i := range w.important {
		p := e2e.Pod(ns, fmt.Sprint("large-", i), "4", "1Gi")
		p.Spec.PriorityClassName = "crowd"
		c.CreatePods(t, p)
		if w.apart {
			e2e.Wait(t, p.Name, func() (string, bool) { return fmt.Sprint(large()), large() == i+1 })
		}
	}
	e2e.Wait(t, "the pods of high priority", func() (string, bool) { n := large(); return fmt.Sprint(n), n == w.important })
	last, since := -1, time.Now()
	e2e.Wait(t, "quiet", func() (string, bool) { // those that were ended come back as far as there is room
		is := 0
		for _, p := range c.Pods(ns) {
			if p.Spec.NodeName == "" || p.DeletionTimestamp != nil {
				is++
			}
		}
		if is != last {
			last, since = is, time.Now()
		}
		return fmt.Sprint(is), time.Since(since) > 4*time.Second
	})
	c.RequireFits(t)
	s.Stop(t)
	preempted, moved := ended()
	return disrupted{large(), preempted, moved, last}
}

// countDisrupted counts the pods that preemption and that evictions end.
func countDisrupted(t *testing.T, c *e2e.Cluster) func() (preempted, evicted int) {
	t.Helper()
	var mu sync.Mutex
	reasons := map[types.UID]string{}
	see := func(o any) {
		if p, ok := o.(*v1.Pod); ok {
			mu.Lock()
			defer mu.Unlock()
			if why := e2e.Condition(p, v1.DisruptionTarget).Reason; why != "" {
				reasons[p.UID] = why
			}
		}
	}
	factory := informers.NewSharedInformerFactory(c.Client, 0)
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: see, UpdateFunc: func(_, o any) { see(o) }, DeleteFunc: see,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return func() (preempted, evicted int) {
		cancel()
		factory.Shutdown()
		for uid, why := range reasons {
			switch why {
			case v1.PodReasonPreemptionByScheduler:
				preempted++
			case "EvictionByEvictionAPI":
				evicted++
			default:
				t.Errorf("%s was ended: %s", uid, why)
			}
		}
		return preempted, evicted
	}
}

// TestPreemptionBesideMakeRoom: where pods of high priority come one after the other and a chain makes room for each, none is
// preempted. SIGMA_ROUNDS has so many seeds, and pods that come all at once too, of which most preempt, since few chains are
// under way at a time: then no fewer are placed than by preemption alone, Sigma's or upstream's, which draws among equal
// nodes, and hardly more are preempted.
func TestPreemptionBesideMakeRoom(t *testing.T) {
	rounds, kinds := roundsOf(t), []crowd{{important: 6, apart: true}, {important: 6}, {important: 12}}
	if os.Getenv("SIGMA_ROUNDS") == "" {
		kinds = kinds[:1]
	}
	c := e2e.Shared(t)
	c.Kubectl(t, "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: crowd}, value: 10}", "apply", "-f", "-")
	defer c.Kubectl(t, "", "delete", "priorityclass", "crowd")
	for _, kind := range kinds {
		var sum [3]disrupted
		for r := range rounds {
			kind.seed = uint64(r + 1)
			for i, run := range []struct {
				name, config string
				repairs      bool
			}{
				{"make-room and preemption", sigmaConfig(false, ""), true},
				{"Sigma, preemption alone", sigmaConfig(false, ""), false},
				{"upstream", "percentageOfNodesToScore: 100\npodInitialBackoffSeconds: 1\npodMaxBackoffSeconds: 1\n", false},
			} {
				d := kind.run(t, run.config, run.repairs)
				t.Logf("%v: %s: %d placed, %d preempted, %d moved, %d wait", kind, run.name, d.placed, d.preempted, d.moved, d.waiting)
				sum[i] = disrupted{sum[i].placed + d.placed, sum[i].preempted + d.preempted, sum[i].moved + d.moved, sum[i].waiting + d.waiting}
			}
		}
		for _, other := range sum[1:] {
			require.GreaterOrEqual(t, sum[0].placed, other.placed)
			require.LessOrEqual(t, 10*sum[0].preempted, 11*other.preempted)
		}
		if kind.apart {
			require.Zero(t, sum[0].preempted, "a chain makes room for each")
			require.Positive(t, sum[0].moved)
		}
	}
}
