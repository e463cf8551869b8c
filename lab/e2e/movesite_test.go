//go:build e2e

package e2e_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
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
	"github.com/sigma-scheduler/sigma/plugins/evict"
)

// A moveSite is four nodes of 4 cores. A pod of 3.5 cores fits on the first once a pod of 1.5 cores of each of two workloads has
// left it, for the two nodes with room for one each: there is no shorter chain, and no other.
type moveSite struct {
	c     *e2e.Cluster
	proxy *e2e.APIProxy
	gate  *moveGate
	watch *moveWatch
	ns    string
	from  string
}

// The workloads of a site, and how many pods each has: one on the first node, one that stays.
var movers = []string{"x", "y"}

const moverPods = 2

func newMoveSite(t *testing.T, c *e2e.Cluster, proxy *e2e.APIProxy, gate *moveGate, watch *moveWatch) *moveSite {
	t.Helper()
	s := &moveSite{c: c, proxy: proxy, gate: gate, watch: watch, ns: c.Namespace(t)}
	node := func(letter string) *v1.Node {
		n := e2e.Node(s.ns+"-"+letter, "4", "16Gi")
		n.Labels["site"] = s.ns
		return n
	}
	rock := func(name, node, cpu string) *v1.Pod { // a bare pod never moves
		p := e2e.Pod(s.ns, name, cpu, "1Gi")
		p.Spec.NodeName = s.ns + "-" + node
		return p
	}
	s.from = s.ns + "-a"
	c.CreateNodes(t, node("a"), node("d"))
	for _, name := range movers {
		d := e2e.Deployment(s.ns, name, moverPods, "1500m", "1Gi")
		d.Spec.Template.Labels = map[string]string{"app": name, "alone": "yes"}
		d.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(1)) // how long a chain waits
		d.Spec.Template.Spec.NodeSelector = map[string]string{"site": s.ns}
		c.CreateDeployment(t, d)
		c.Kubectl(t, "", "create", "poddisruptionbudget", name, "-n", s.ns, "--selector=app="+name, "--max-unavailable=1")
	}
	c.WaitRunning(t, s.ns, 2*moverPods)
	c.CreatePods(t, rock("rock-d", "d", "1"))
	c.CreateNodes(t, node("b"), node("c"))
	c.CreatePods(t, rock("rock-b", "b", "2500m"), rock("rock-c", "c", "2500m"))
	c.WaitRunning(t, s.ns, 2*moverPods+3)
	for _, name := range movers {
		s.waitBudget(t, name, "1")
		e2e.Wait(t, name, func() (string, bool) {
			is := c.Kubectl(t, "", "get", "deployment", name, "-n", s.ns, "-o", "jsonpath={.status.readyReplicas}")
			return is, is == fmt.Sprint(moverPods)
		})
	}
	watch.begin(s.ns)
	return s
}

// waitBudget waits until the controller of budgets has read one.
func (s *moveSite) waitBudget(t *testing.T, name, allows string) {
	t.Helper()
	e2e.Wait(t, "the budget", func() (string, bool) {
		is := s.c.Kubectl(t, "", "get", "poddisruptionbudget", name, "-n", s.ns, "-o", "jsonpath={.status.disruptionsAllowed} {.metadata.generation} {.status.observedGeneration}")
		f := strings.Fields(is)
		return is, len(f) == 3 && f[0] == allows && f[1] == f[2]
	})
}

// reach begins what moves pods and returns when it is at a moment, at which it stays until goOn is called.
func (s *moveSite) reach(t *testing.T, at moment, begin func(*testing.T)) (goOn func()) {
	t.Helper()
	release := func() {}
	if held := requests[at]; held.n > 0 {
		s.gate.hold(s.ns, held)
		release = s.proxy.Hold()
	}
	if at == endingFirst {
		s.c.Kubelet.Disown(s.from)
	}
	begin(t)
	if requests[at].n > 0 {
		s.proxy.WaitHeld(t, 1)
	}
	if at == endingSecond {
		s.c.Kubelet.Disown(s.from)
		release()
	}
	if evicted := map[moment]int{endingFirst: 1, endingSecond: 2}[at]; evicted > 0 {
		e2e.Wait(t, at.String(), func() (string, bool) {
			n := s.watch.evictions(s.ns)
			return fmt.Sprint(n), n == evicted
		})
	}
	return func() {
		s.gate.hold(s.ns, request{})
		release()
		s.c.Kubelet.Own(s.from)
	}
}

// large makes the pod that needs a chain.
func (s *moveSite) large(t *testing.T) {
	t.Helper()
	large := e2e.Pod(s.ns, "large", "3500m", "1Gi")
	large.Spec.NodeSelector = map[string]string{"site": s.ns}
	s.c.CreatePods(t, large)
}

// target is where the first pod of the chain is to go.
func (s *moveSite) target(t *testing.T) (node string) {
	t.Helper()
	e2e.Wait(t, "the event", func() (string, bool) {
		text := s.events(t, "MakingRoom")
		if m := regexp.MustCompile(`moves from \S+ to (\S+?)[,.]`).FindStringSubmatch(text); m != nil {
			node = m[1]
		}
		return text, node != ""
	})
	return node
}

func (s *moveSite) events(t *testing.T, reason string) string {
	t.Helper()
	return s.c.Kubectl(t, "", "get", "events", "-n", s.ns, "--field-selector=reason="+reason, "-o", `jsonpath={range .items[*]}{.note}{.message}{"\n"}{end}`)
}

// bare makes a pod that another scheduler puts on a node.
func (s *moveSite) bare(t *testing.T, name, node, cpu string) {
	t.Helper()
	p := e2e.Pod(s.ns, name, cpu, "1Gi")
	p.Spec.NodeName = node
	s.c.CreatePods(t, p)
}

// lose removes a node and what stands there, which a controller would after a minute.
func (s *moveSite) lose(t *testing.T, node string) {
	t.Helper()
	s.watch.lost(s.ns, node)
	s.c.DeleteNode(t, node)
	s.c.Kubectl(t, "", "delete", "pods", "-n", s.ns, "--field-selector", "spec.nodeName="+node, "--force", "--grace-period=0")
}

// healthy waits until all pods of the workloads run.
func (s *moveSite) healthy(t *testing.T) {
	t.Helper()
	e2e.Wait(t, "the workloads", func() (string, bool) {
		n := map[string]int{}
		for _, p := range s.c.Pods(s.ns) {
			if p.Status.Phase == v1.PodRunning && p.DeletionTimestamp == nil {
				n[p.Labels["app"]]++
			}
		}
		return fmt.Sprint(n), n["x"] == moverPods && n["y"] == moverPods
	})
}

// isIn reports whether the pod has a node.
func (s *moveSite) isIn() bool { return s.c.Placements(s.ns)["large"] != "" }

// close deletes what a round has made, and the list of evictions, which count for an hour. Of other sites the workloads have
// records still.
func (s *moveSite) close(t *testing.T) {
	t.Helper()
	s.watch.end(s.ns)
	s.c.Kubectl(t, "", "delete", "deployments,poddisruptionbudgets,resourcequotas,pods", "--all", "-n", s.ns, "--force", "--grace-period=0")
	e2e.Wait(t, "pods to vanish", func() (string, bool) { n := len(s.c.Pods(s.ns)); return fmt.Sprint(n), n == 0 })
	s.c.Kubectl(t, "", "delete", "nodes", "-l", "site="+s.ns)
	s.c.Kubectl(t, "", "delete", "configmap", "-n", evict.ListNamespace, evict.ListName, "--ignore-not-found")
}

// A moveWatch sees every change of a pod and counts what must never be.
type moveWatch struct {
	mu     sync.Mutex
	pods   map[types.UID]*v1.Pod
	sites  map[string]*siteSeen // by namespace
	broken []string
	all    siteSeen // of sites that have ended
}

// siteSeen is what a watch has seen of a site.
type siteSeen struct {
	moments, mostAway int
	evicted           map[types.UID]string // apps
	closed            map[string]bool      // apps of which no pod may be evicted
	stood             map[types.UID]bool   // pods of the workloads at the beginning
	blind             bool                 // the API server was away
	dead              int                  // pods on nodes that were lost
}

func watchMoves(t *testing.T, c *e2e.Cluster) *moveWatch {
	t.Helper()
	w := &moveWatch{pods: map[types.UID]*v1.Pod{}, sites: map[string]*siteSeen{}, all: siteSeen{evicted: map[types.UID]string{}}}
	factory := informers.NewSharedInformerFactory(c.Client, 0)
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { w.see(o.(*v1.Pod), false) },
		UpdateFunc: func(_, o any) { w.see(o.(*v1.Pod), false) },
		DeleteFunc: func(o any) {
			if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			w.see(o.(*v1.Pod), true)
		},
	})
	require.NoError(t, err)
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	t.Cleanup(func() {
		factory.Shutdown()
		require.Empty(t, w.broken)
	})
	return w
}

func (w *moveWatch) begin(ns string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &siteSeen{evicted: map[types.UID]string{}, closed: map[string]bool{}, stood: map[types.UID]bool{}}
	for uid, p := range w.pods {
		if p.Namespace == ns {
			s.stood[uid] = true
		}
	}
	w.sites[ns] = s
}

func (w *moveWatch) end(ns string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.sites[ns]
	delete(w.sites, ns)
	w.all.moments += s.moments
	w.all.mostAway = max(w.all.mostAway, s.mostAway-s.dead)
	maps.Copy(w.all.evicted, s.evicted)
}

// blinded says that the API server goes away. What is seen after that is put together from moments before and after: how many pods
// are away cannot be told from it, but from the records, at the end.
func (w *moveWatch) blinded(ns string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sites[ns].blind = true
}

// shut says that no pod of an app may be evicted from now on.
func (w *moveWatch) shut(ns, app string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sites[ns].closed[app] = true
}

func (w *moveWatch) lost(ns, node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.pods {
		if p.Namespace == ns && p.Spec.NodeName == node && slices.Contains(movers, p.Labels["app"]) {
			w.sites[ns].dead++
		}
	}
}

func (w *moveWatch) evictions(ns string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.sites[ns].evicted)
}

// away is the largest number of pods of a site's workloads that were away at a time, beyond those that were lost with nodes.
func (w *moveWatch) away(ns string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return max(0, w.sites[ns].mostAway-w.sites[ns].dead)
}

func (w *moveWatch) deaths(ns string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sites[ns].dead
}

// see takes a change and checks what it leads to.
func (w *moveWatch) see(p *v1.Pod, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if old := w.pods[p.UID]; old != nil && old.Spec.NodeName != "" && old.Spec.NodeName != p.Spec.NodeName {
		w.fault("%s/%s was on %s and is on %s", p.Namespace, p.Name, old.Spec.NodeName, p.Spec.NodeName)
	}
	if gone {
		delete(w.pods, p.UID)
	} else {
		w.pods[p.UID] = p
	}
	s := w.sites[p.Namespace]
	if s == nil {
		return
	}
	s.moments++
	used, count, runs := map[string]int64{}, map[string]int{}, map[string]int{}
	for _, q := range w.pods {
		if q.Namespace != p.Namespace || q.Status.Phase == v1.PodSucceeded || q.Status.Phase == v1.PodFailed {
			continue
		}
		app := q.Labels["app"]
		if q.Spec.NodeName != "" {
			used[q.Spec.NodeName] += q.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
			if q.Labels["alone"] != "" {
				count[app+" on "+q.Spec.NodeName]++
			}
		}
		if q.Status.Phase == v1.PodRunning && q.DeletionTimestamp == nil {
			runs[app]++
		}
	}
	for node, milli := range used {
		if milli > 4000 {
			w.fault("%d millicores on %s", milli, node)
		}
	}
	for what, n := range count {
		if n > 1 {
			w.fault("a rule allows one: %d of %s", n, what)
		}
	}
	away := 0
	for _, app := range movers {
		away += max(0, moverPods-runs[app])
	}
	if s.blind {
		away = 0
	}
	if s.mostAway = max(s.mostAway, away); away > 1+s.dead {
		w.fault("%d pods are away in %s, %d were lost with nodes", away, p.Namespace, s.dead)
	}
	if s.evicted[p.UID] == "" && e2e.Condition(p, v1.DisruptionTarget).Reason == "EvictionByEvictionAPI" && p.DeletionTimestamp != nil {
		app := p.Labels["app"]
		s.evicted[p.UID] = app
		n := 0
		for _, a := range s.evicted {
			if a == app {
				n++
			}
		}
		switch {
		case n > 1:
			w.fault("%d pods of %s/%s were evicted within an hour", n, p.Namespace, app)
		case s.closed[app]:
			w.fault("%s/%s was evicted although its budget allows nothing", p.Namespace, p.Name)
		case runs[app] < moverPods-1:
			w.fault("the budget of %s/%s: %d pods run", p.Namespace, app, runs[app])
		}
	}
}

func (w *moveWatch) fault(text string, args ...any) {
	w.broken = append(w.broken, fmt.Sprintf(text, args...))
}

// requireRecords checks that every eviction is recorded in the name of its source in its workload: the limits count them all; and
// by the records, that one pod is away at a time, also while the watch saw nothing. It returns how many records have no eviction.
func (s *moveSite) requireRecords(t *testing.T, source string) (surplus int) {
	t.Helper()
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	seen := s.watch.sites[s.ns]
	var list []absence
	for _, app := range movers {
		d, err := s.c.Client.AppsV1().Deployments(s.ns).Get(t.Context(), app, metav1.GetOptions{})
		require.NoError(t, err)
		n := 0
		for _, a := range seen.evicted {
			if a == app {
				n++
			}
		}
		var records []time.Time
		for _, text := range strings.Split(d.Annotations[evict.Annotation], ",") {
			if at, by, _ := strings.Cut(text, "/"); strings.HasPrefix(by, source) {
				record, err := time.Parse(time.RFC3339, at)
				require.NoError(t, err)
				records = append(records, record)
			}
		}
		require.GreaterOrEqual(t, len(records), n, app)
		surplus += len(records) - n
		if seen.dead > 0 { // replacements of those that died have no record
			continue
		}
		for _, p := range s.c.Pods(s.ns) {
			if p.Labels["app"] == app && !seen.stood[p.UID] {
				ready := e2e.Condition(p, v1.PodReady)
				require.Equal(t, v1.ConditionTrue, ready.Status, p.Name)
				list = append(list, absenceOf(records, ready.LastTransitionTime.Time))
			}
		}
	}
	require.False(t, slices.Contains(list, absence{}), "a pod came that replaces none: %v", list)
	atOnce := mostAtOnce(list)
	require.LessOrEqual(t, atOnce, 1, "%v", list)
	seen.mostAway = max(seen.mostAway, atOnce+seen.dead)
	return surplus
}
