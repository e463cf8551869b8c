package drain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/engine"
	"github.com/sigma-scheduler/sigma/plugins/evict"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/ledger/ledgertest"
)

// A world is a cluster with a scheduler: nodes of 4 cores, and a queue of pods. An evicted pod
// ends after a while, and its Deployment makes another one at once.
type world struct {
	*testing.T
	*Chains
	log string
	mu  sync.Mutex
	// What the API server has.
	nodes, pods map[string]*v1.Pod // nodes: names only
	cordoned    map[string]bool
	staying     map[string]bool   // pods that a budget keeps
	refuses     map[string]error  // evictions, by pod
	unfit       map[string]string // why filters refuse a pod, by pod
	dies        time.Duration     // how long a pod takes to end
	barren      bool              // Deployments make no pods
	deaf        bool              // evictions do not arrive, and the answers are lost
	idle        bool              // evictions are granted, and do not happen
	asked       func()            // called for each eviction; nil = no call
	stop        func()            // ends the scheduler
	evicted     []string
	replaced    int
	most        int             // evictions that are allowed; 0 = all
	earlier     int             // evictions of the last hour, before this process
	uncounted   error           // when they are counted
	skew        atomic.Int64    // how far the engine's clock was set, in ns: it has no other that could be
	active      map[string]bool // pods to be tried
}

func newWorld(t *testing.T, mode policy.RepairMode) *world {
	w := &world{
		T: t, log: filepath.Join(t.TempDir(), "d.jsonl"), nodes: map[string]*v1.Pod{}, pods: map[string]*v1.Pod{}, cordoned: map[string]bool{},
		staying: map[string]bool{}, refuses: map[string]error{}, unfit: map[string]string{}, dies: 5 * time.Second, active: map[string]bool{},
	}
	e, err := engine.New(engine.Options{
		Profile: t.Name(), PolicyName: "general", Fleet: "open", DecisionLog: w.log, Top: 10, Repairs: true,
		Now: func() time.Time { return time.Now().Add(time.Duration(w.skew.Load())) },
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	w.Chains, w.stop = NewChains(ctx, e, w, time.Now), cancel
	w.used = func() float64 { return 0 } // as the clock of these tests, which stands still in a search
	t.Cleanup(func() {
		cancel()
		w.Wait()
		require.NoError(t, e.Close())
	})
	w.set(mode)
	return w
}

func (w *world) set(mode policy.RepairMode) {
	r := &policy.Repair{Mode: mode, MinReplicas: new(1)}
	w.engine.SetPolicy(ledger.Primary, &policy.Object{
		APIVersion: policy.APIVersion, Kind: policy.ObjectKind, Metadata: policy.Metadata{Name: "general"},
		Spec: policy.Spec{FeatureVersion: 1, Model: "linear", Knowledge: "K0", Features: []string{"util"}, Weights: []float64{1}, Mode: policy.Live, Repair: r},
	})
}

// add makes a pod of a Deployment, on a node or waiting.
func (w *world) add(name, workload, cores, node string) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), OwnerReferences: []metav1.OwnerReference{{Kind: "Deployment", Name: workload, Controller: new(true)}}},
		Spec: v1.PodSpec{NodeName: node, TerminationGracePeriodSeconds: new(int64(30)), Containers: []v1.Container{{Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{"cpu": resource.MustParse(cores)},
		}}}},
		Status: v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}},
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods[name] = p
	w.active[name] = node == ""
	return p
}

// Pod implements [Cluster].
func (w *world) Pod(_, name string) *v1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods[name]
}

// NotEvictable implements [Cluster].
func (w *world) NotEvictable() func(*v1.Pod) bool {
	return func(p *v1.Pod) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.staying[p.Name]
	}
}

// Ends implements [Cluster].
func (w *world) Ends(node string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.pods {
		if p.Spec.NodeName == node && p.DeletionTimestamp != nil {
			return true
		}
	}
	return false
}

// Activate implements [Cluster].
func (w *world) Activate(pods ...*v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range pods {
		w.active[p.Name] = true
	}
}

// Evicted implements [Cluster].
func (w *world) Evicted(context.Context) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.earlier + len(w.evicted), w.uncounted
}

// Evict implements [Cluster].
func (w *world) Evict(_ context.Context, perHour int, p *v1.Pod) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asked != nil {
		w.asked()
	}
	if err := w.refuses[p.Name]; err != nil {
		return err
	}
	if w.earlier+len(w.evicted) >= perHour {
		return errors.New("a limit")
	}
	if w.most > 0 && len(w.evicted) == w.most {
		return errors.New("429")
	}
	if w.deaf {
		return &evict.UncertainError{Err: errors.New("EOF")}
	}
	w.evicted = append(w.evicted, p.Name)
	if w.idle {
		return nil
	}
	if ending := w.pods[p.Name].DeepCopy(); ending != nil {
		ending.DeletionTimestamp = new(metav1.Now())
		w.pods[p.Name] = ending
	}
	time.AfterFunc(w.dies, func() { w.remove(p.Name) })
	if !w.barren {
		w.replaced++
		go w.add(fmt.Sprint(p.OwnerReferences[0].Name, "-new-", w.replaced), p.OwnerReferences[0].Name, p.Spec.Containers[0].Resources.Requests.Cpu().String(), "")
	}
	return nil
}

func (w *world) remove(name string) {
	w.mu.Lock()
	p := w.pods[name]
	delete(w.pods, name)
	w.mu.Unlock()
	if p != nil {
		w.engine.Deleted(p)
		w.Gone(p)
	}
}

// sync brings the engine up to date.
func (w *world) sync() {
	w.engine.Sync(func(_ bool, set func(engine.Node), gone func(string)) {
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			if _, ok := w.nodes[name]; !ok {
				gone(name)
				continue
			}
			n := engine.Node{Object: &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.NodeSpec{Unschedulable: w.cordoned[name]}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{
				"cpu": resource.MustParse("4"), "pods": resource.MustParse("20"),
			}}}}
			w.mu.Lock()
			for _, p := range slices.Sorted(maps.Keys(w.pods)) {
				if w.pods[p].Spec.NodeName == name {
					n.Pods = append(n.Pods, w.pods[p])
				}
			}
			w.mu.Unlock()
			set(n)
		}
	})
}

// free are the millicores that are free on a node.
func (w *world) free(node string) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := int64(4000)
	for _, p := range w.pods {
		if p.Spec.NodeName == node {
			left -= p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		}
	}
	return left
}

// cycle tries a pod, as the scheduler does.
func (w *world) cycle(p *v1.Pod) {
	w.sync()
	need := p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
	check := w.engine.Check(p)
	var fits, short []string
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		switch {
		case w.cordoned[name]:
		case w.free(name) >= need && (check == nil || check.Refusal(name) == ""):
			fits = append(fits, name)
		default:
			short = append(short, name)
		}
	}
	if len(fits) == 0 {
		w.MakeRoom(p, func() []string { return short }, func(string, []*v1.Pod) bool { return true })
		return
	}
	v := w.engine.Rank(w.Context(), p, fits)
	bound := p.DeepCopy()
	bound.Spec.NodeName = v.Ranked[0].Node
	w.mu.Lock()
	w.pods[p.Name] = bound
	w.mu.Unlock()
	w.engine.Reserve(bound, bound.Spec.NodeName, v)
	w.Gone(bound)
}

// run lets time pass: pods that are to be tried are.
func (w *world) run(d time.Duration) {
	for begin := time.Now(); time.Since(begin) < d; time.Sleep(100 * time.Millisecond) {
		synctest.Wait()
		w.mu.Lock()
		var due []*v1.Pod
		for _, name := range slices.Sorted(maps.Keys(w.active)) {
			if p := w.pods[name]; w.active[name] && p != nil && p.Spec.NodeName == "" {
				due = append(due, p)
			}
		}
		clear(w.active)
		w.mu.Unlock()
		for _, p := range due {
			w.cycle(p)
		}
	}
	synctest.Wait()
}

// unready changes a pod into one that is not ready: with conditions, or without.
func (w *world) unready(p *v1.Pod, conditions ...v1.PodCondition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	not := p.DeepCopy()
	not.Status.Conditions = conditions
	w.pods[p.Name] = not
}

// where says where pods stand: "" = nowhere.
func (w *world) where(names ...string) (nodes []string) {
	for _, name := range names {
		at := "gone"
		if p := w.Pod("default", name); p != nil {
			at = p.Spec.NodeName
		}
		nodes = append(nodes, at)
	}
	return nodes
}

// requireNothingHeld checks that nothing is reserved any more, and the log.
func (w *world) requireNothingHeld() {
	w.Helper()
	w.Wait()
	w.sync()
	for name := range w.nodes {
		require.False(w, w.engine.Holds(name), name)
	}
	require.Empty(w, w.chains)
	require.NoError(w, w.engine.Close())
	ledgertest.Verify(w, w.log)
}

// stuckWorld has three nodes. large, with 3 cores, fits once db has moved from a to b.
func stuckWorld(t *testing.T, mode policy.RepairMode) *world {
	w := newWorld(t, mode)
	w.nodes["a"], w.nodes["b"] = nil, nil
	w.add("db-1", "db", "2", "a")
	w.add("log-1", "log", "1", "a")
	w.add("web-1", "web", "1500m", "b")
	w.staying["log-1"], w.staying["web-1"] = true, true
	w.add("large-1", "large", "3", "")
	return w
}

func TestMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := stuckWorld(t, policy.RepairEnabled)
		w.run(time.Second)
		require.Equal(t, []string{"db-1"}, w.evicted)
		require.Equal(t, []string{"b", ""}, w.where("db-new-1", "large-1"))
		for i := range 20 {
			w.add(fmt.Sprint("x-", i), "x", "500m", "")
		}
		w.run(10 * time.Second)
		require.Equal(t, []string{"gone", "a"}, w.where("db-1", "large-1"))
		stand := 0
		for i := range 20 {
			if w.where(fmt.Sprint("x-", i))[0] != "" {
				stand++
			}
		}
		require.Equal(t, 1, stand, "there is room for one beside the chain")
		require.True(t, w.notEvictable(time.Now())(w.pods["db-new-1"]), "limits allow no second one")
		require.False(t, w.notEvictable(time.Now().Add(time.Hour))(w.pods["db-new-1"]))
		w.requireNothingHeld()
	})
}

func TestDryRunOnlySays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := stuckWorld(t, policy.RepairDryRun)
		w.run(time.Minute)
		require.True(t, w.reported["large-1"])
		require.Empty(t, w.evicted)
		require.False(t, w.engine.Holds("b"))
		w.set(policy.RepairEnabled) // the pods that wait are tried
		w.run(time.Minute)
		require.Equal(t, []string{"a"}, w.where("large-1"))
		w.requireNothingHeld()
	})
}

// What ends a chain leaves nothing reserved, and every pod has a place or the room it had.
func TestChainEndsEarly(t *testing.T) {
	for _, tt := range []struct {
		name    string
		before  func(*world)
		meddle  func(*world) // a second after the chain began
		after   time.Duration
		evicted []string
		where   []string // db-1, db-new-1, large-1
	}{
		{"the budget became tighter", func(w *world) { w.refuses["db-1"] = errors.New("429") }, nil, time.Second, nil, []string{"a", "gone", ""}},
		{"no moves left", func(w *world) { w.evictedAt = slices.Repeat([]time.Time{time.Now()}, 20) }, nil, time.Second, nil, []string{"a", "gone", ""}},
		{"the replacement never comes", func(w *world) { w.barren = true }, nil, 5 * time.Minute, []string{"db-1"}, []string{"gone", "gone", "a"}},
		{"the pod has a grace of a day", func(w *world) { w.pods["db-1"].Spec.TerminationGracePeriodSeconds = new(int64(86_400)) }, nil, time.Minute, nil, []string{"a", "gone", ""}},
		{"the pod is deleted", nil, func(w *world) { w.remove("large-1") }, time.Minute, []string{"db-1"}, []string{"gone", "b", "gone"}},
		{"its node is cordoned", nil, func(w *world) { w.cordoned["a"] = true; w.sync() }, time.Minute, []string{"db-1"}, []string{"gone", "b", ""}},
		{"a foreign pod takes the room", nil, func(w *world) { w.add("foreign", "foreign", "500m", "a"); w.sync() }, time.Minute, []string{"db-1"}, []string{"gone", "b", ""}},
		{"its node goes", nil, func(w *world) { delete(w.nodes, "a"); w.sync() }, time.Minute, []string{"db-1"}, []string{"gone", "b", ""}},
		{"repair is disabled", nil, func(w *world) { w.set(policy.RepairDisabled) }, time.Minute, []string{"db-1"}, []string{"gone", "b", "a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := stuckWorld(t, policy.RepairEnabled)
				if tt.before != nil {
					tt.before(w)
				}
				w.run(time.Second)
				if tt.meddle != nil {
					tt.meddle(w)
				}
				w.run(tt.after)
				require.Equal(t, tt.evicted, w.evicted)
				require.Equal(t, tt.where, w.where("db-1", "db-new-1", "large-1"))
				w.requireNothingHeld()
			})
		})
	}
}
