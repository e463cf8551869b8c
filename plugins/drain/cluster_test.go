package drain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/engine"
	"github.com/sigma-scheduler/sigma/plugins/evict"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger/ledgertest"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
	"github.com/sigma-scheduler/sigma/plugins/snapshot"
)

// A cluster has six nodes of 4 cores, each half full, and a scheduler with a real engine. An evicted
// pod ends after 5 s, and its workload makes another one at once, which is ready 2 s after it got
// a node.
type cluster struct {
	*testing.T
	*controller
	engine *engine.Engine
	log    string
	object *v1alpha1.Rebalance
	nodes  map[string]*v1.Node
	pods   map[types.UID]*v1.Pod
	made   int

	barren    bool              // workloads make no pods
	refuses   map[string]error  // evictions, by workload
	staying   map[string]bool   // workloads that a budget keeps
	unfit     map[string]string // why filters refuse a pod, by node
	asked     int               // how often
	recent    map[string]int    // and evictions of them within the hour
	lacks     string
	unasked   error       // when rights are asked for
	uncounted error       // when evictions are counted
	full      error       // a limit of all evictions
	evicted   []string    // workloads
	written   []time.Time // evictions, in the workloads
	onEvict   func()
	due       []event
}

// An event comes at its time.
type event struct {
	at time.Time
	do func()
}

func (c *cluster) later(d time.Duration, do func()) {
	c.due = append(c.due, event{time.Now().Add(d), do})
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{T: t, nodes: map[string]*v1.Node{}, pods: map[types.UID]*v1.Pod{}, refuses: map[string]error{}, staying: map[string]bool{}, unfit: map[string]string{}, recent: map[string]int{}}
	c.object = &v1alpha1.Rebalance{ObjectMeta: metav1.ObjectMeta{Name: "tidy", UID: "r", Generation: 1}, Spec: *defaults()}
	c.object.Spec.Mode, c.object.Spec.MovesPerHour, c.object.Spec.InFlight = v1alpha1.RebalanceAuto, 20, 1
	for i := range 6 {
		n := node(i, "a")
		c.nodes[n.Name] = n
		for k := range 2 {
			p := pod(fmt.Sprint("w", (2*i+k)%6), i, i, "1")
			c.pods[p.UID] = p
		}
	}
	c.start()
	return c
}

// start starts a scheduler, which leads. One before it is killed.
func (c *cluster) start() {
	var err error
	c.log = filepath.Join(c.TempDir(), "d.jsonl")
	c.engine, err = engine.New(engine.Options{Profile: c.Name(), Fleet: "open", DecisionLog: c.log, Top: 10})
	require.NoError(c, err)
	e := c.engine
	c.Cleanup(func() { _ = e.Close() })
	c.controller = newController(Options{Fleet: "open", Site: c, Holder: c.engine}, clock.RealClock{})
	c.leads = func() bool { return true }
}

// begin makes a plan and begins to carry it out.
func (c *cluster) begin() *execution {
	register()
	s, err := parseSpec(&c.object.Spec)
	require.NoError(c, err)
	picture := &snapshot.Picture{Nodes: c.Nodes(), Pods: c.Pods()}
	stays, moved, err := c.notEvictable(c.Context(), &s, picture.Nodes, picture.Pods)
	require.NoError(c, err)
	_, found, err := s.plan(c.Context(), picture, &c.Options, time.Now(), stays, moved)
	require.NoError(c, err)
	w := c.newExecution(c.Context(), c.object, found, picture.Pods, time.Now())
	c.executions[c.object.Name] = w
	return w
}

// run lets time pass.
func (c *cluster) run(d time.Duration) {
	for begin := time.Now(); time.Since(begin) < d; time.Sleep(time.Second) {
		due := c.due
		c.due = nil
		for _, e := range due {
			if time.Now().Before(e.at) {
				c.due = append(c.due, e)
			} else {
				e.do()
			}
		}
		if c.objects != nil {
			c.tick(c.Context())
		} else {
			c.listedAt = time.Now()
			c.advance(c.Context())
			_ = c.uncordon(c.Context(), map[string]*v1alpha1.Rebalance{"tidy": c.object})
		}
		for _, p := range c.Pods() {
			if p.Spec.NodeName == "" {
				c.cycle(p)
			}
		}
		synctest.Wait()
	}
}

// cycle tries a pod, as the scheduler does.
func (c *cluster) cycle(p *v1.Pod) {
	c.sync()
	check := c.engine.Check(p)
	var fits []string
	for _, n := range c.Nodes() {
		if !n.Spec.Unschedulable && c.free(n.Name) >= p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue() && (check == nil || check.Refusal(n.Name) == "") {
			fits = append(fits, n.Name)
		}
	}
	if len(fits) == 0 {
		p = p.DeepCopy()
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable}}
		c.pods[p.UID] = p
		return
	}
	v := c.engine.Rank(c.Context(), p, fits)
	bound := p.DeepCopy()
	bound.Spec.NodeName, bound.Status.Conditions = v.Ranked[0].Node, nil
	c.pods[p.UID] = bound
	c.engine.Reserve(bound, bound.Spec.NodeName, v)
	c.later(2*time.Second, func() {
		if p := c.pods[bound.UID]; p != nil {
			p = p.DeepCopy()
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
			c.pods[p.UID] = p
		}
	})
}

func (c *cluster) sync() {
	c.engine.Sync(func(_ bool, set func(engine.Node), gone func(string)) {
		for i := range 6 {
			name := fmt.Sprintf("n%02d", i)
			if c.nodes[name] == nil {
				gone(name)
				continue
			}
			n := engine.Node{Object: c.nodes[name]}
			for _, p := range c.Pods() {
				if p.Spec.NodeName == name {
					n.Pods = append(n.Pods, p)
				}
			}
			set(n)
		}
	})
}

func (c *cluster) free(node string) int64 {
	left := int64(4000)
	for _, p := range c.pods {
		if p.Spec.NodeName == node {
			left -= p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		}
	}
	return left
}

// Pods implements [Site].
func (c *cluster) Pods() []*v1.Pod {
	return slices.SortedFunc(maps.Values(c.pods), func(a, b *v1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
}

// Nodes implements [Site].
func (c *cluster) Nodes() (list []*v1.Node) {
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		list = append(list, c.nodes[name])
	}
	return list
}

func workloadOf(p *v1.Pod) string { return p.Name[:2] }

// NotEvictable implements [Site].
func (c *cluster) NotEvictable() func(*v1.Pod) bool {
	return func(p *v1.Pod) bool { return c.staying[workloadOf(p)] }
}

// Refusal implements [Site].
func (c *cluster) Refusal(_ context.Context, _ []*v1.Pod, places ...kube.Place) string {
	c.asked++
	for _, p := range places {
		if why := c.unfit[p.Node]; why != "" {
			return why
		}
	}
	return ""
}

// MissingRight implements [Site].
func (c *cluster) MissingRight(context.Context) (string, error) { return c.lacks, c.unasked }

// PatchNode implements [Site].
func (c *cluster) PatchNode(_ context.Context, name string, patch []byte) error {
	if c.nodes[name] != nil {
		c.nodes[name] = patched(c.T, c.nodes[name], patch)
	}
	return nil
}

// Evict implements [Site].
func (c *cluster) Evict(ctx context.Context, object string, perHour int, p *v1.Pod) error {
	workload := workloadOf(p)
	if err := c.refuses[workload]; err != nil {
		return err
	}
	if n, _ := c.Evicted(ctx, object); n >= perHour {
		return &evict.LimitError{Limit: "source"}
	}
	c.written = append(c.written, time.Now())
	c.evicted = append(c.evicted, workload)
	ends := c.pods[p.UID].DeepCopy()
	ends.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	c.pods[p.UID] = ends
	c.later(5*time.Second, func() {
		delete(c.pods, p.UID)
		c.engine.Deleted(ends)
	})
	if !c.barren {
		c.add(workload)
	}
	if c.onEvict != nil {
		c.onEvict()
	}
	return nil
}

// Recent implements [Site]. Without rights workloads cannot be read.
func (c *cluster) Recent(context.Context) (func(*v1.Pod) int, error) {
	if c.lacks != "" {
		return nil, fmt.Errorf("list workloads: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "", errors.New("no")))
	}
	return func(p *v1.Pod) int { return c.recent[workloadOf(p)] }, nil
}

// Evicted implements [Site].
func (c *cluster) Evicted(_ context.Context, object string) (n int, err error) {
	require.Equal(c, c.object.Name, object)
	for _, at := range c.written {
		if time.Since(at) < time.Hour {
			n++
		}
	}
	return n, c.uncounted
}

// Full implements [Site].
func (c *cluster) Full(context.Context, []*v1.Pod) error { return c.full }

// add makes a pod of a workload that waits.
func (c *cluster) add(workload string) *v1.Pod {
	c.made++
	p := pod(workload, 100+c.made, 0, "1")
	p.Spec.NodeName, p.Status.Conditions, p.CreationTimestamp = "", nil, metav1.Now()
	c.pods[p.UID] = p
	return p
}

// cordons are the nodes that are cordoned, with what stands there.
func (c *cluster) cordons() map[string]int {
	list := map[string]int{}
	for _, n := range c.Nodes() {
		if !n.Spec.Unschedulable {
			require.Empty(c, n.Annotations, n.Name)
			continue
		}
		list[n.Name] = 0
		for _, p := range c.pods {
			if p.Spec.NodeName == n.Name {
				list[n.Name]++
			}
		}
	}
	return list
}

// requireAllStand checks that all pods stand, ready, that nothing is reserved, and the log.
func (c *cluster) requireAllStand(pods int) {
	c.Helper()
	require.Len(c, c.pods, pods)
	for _, p := range c.pods {
		require.True(c, podspec.Ready(p), "%s on %q", p.Name, p.Spec.NodeName)
	}
	c.requireNothingHeld()
}

func (c *cluster) requireNothingHeld() {
	c.Helper()
	c.sync()
	for name := range c.nodes {
		require.False(c, c.engine.Holds(name), name)
	}
	require.NoError(c, c.engine.Close())
	ledgertest.Verify(c.T, c.log)
}

func inCluster(t *testing.T, test func(c *cluster)) {
	synctest.Test(t, func(t *testing.T) { test(newCluster(t)) })
}
