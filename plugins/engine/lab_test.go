package engine

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"

	shippedpolicies "github.com/sigma-scheduler/sigma/benchdata/policies"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/ledger/ledgertest"
)

// A lab is an engine with a cluster around it and a clock that stands still.
type lab struct {
	*testing.T
	*Engine
	options Options
	path    string // of the decision log
	now     time.Time
	nodes   map[string]*v1.Node
	on      map[string][]*v1.Pod
	dirty   map[string]bool
	events  chan string
	hasty   bool // it does not wait for the decision log
	alike   bool // nodes that come are all of one size
}

// profile is a name that no other test and no other run of this one has: metrics
// are per profile.
func profile(t *testing.T) string { return fmt.Sprint(t.Name(), "-", profiles.Add(1)) }

var profiles atomic.Int64

func newLab(t *testing.T, changes ...func(*Options)) *lab {
	t.Helper()
	recorder := events.NewFakeRecorder(1000)
	l := &lab{
		T: t, path: filepath.Join(t.TempDir(), "decisions.jsonl"), now: time.Unix(1.7e9, 0), events: recorder.Events,
		nodes: map[string]*v1.Node{}, on: map[string][]*v1.Pod{}, dirty: map[string]bool{},
	}
	opt := Options{
		Profile: profile(t), PolicyName: "general", CanaryName: "canary", AppLabel: "app", Fleet: "fixed", DecisionLog: l.path,
		ForecastAge: 5 * time.Minute, Top: 10, Recorder: recorder, Now: func() time.Time { return l.now },
	}
	for _, change := range changes {
		change(&opt)
	}
	l.options = opt
	var err error
	l.Engine, err = New(opt)
	require.NoError(t, err)
	l.measured.every = -1
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// restart ends the scheduler's process and begins another one, which looks at the
// cluster at once.
func (l *lab) restart() {
	l.Helper()
	require.NoError(l, l.Close())
	var err error
	l.Engine, err = New(l.options)
	require.NoError(l, err)
	l.measured.every = -1
	l.sync()
}

// node has cores, 4 GiB for each, and room for 110 pods.
func (l *lab) node(name string, cores int) {
	l.nodes[name] = &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: v1.NodeStatus{Allocatable: v1.ResourceList{
			"cpu": *resource.NewQuantity(int64(cores), resource.DecimalSI), "memory": *resource.NewQuantity(int64(cores)<<32, resource.BinarySI),
			"pods": resource.MustParse("110"),
		}},
	}
	l.dirty[name] = true
}

func pod(name, app string, changes ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{"app": app}},
		Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
			"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi"),
		}}}}},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

// ofDaemonSet makes a pod one of a DaemonSet.
func ofDaemonSet(p *v1.Pod) {
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "agent", Controller: new(true)}}
}

// asks changes what a pod needs.
func asks(name v1.ResourceName, quantity string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests[name] = resource.MustParse(quantity) }
}

// stand puts a pod on a node, by any scheduler.
func (l *lab) stand(p *v1.Pod, node string) *v1.Pod {
	p = p.DeepCopy()
	p.Spec.NodeName = node
	l.on[node] = append(l.on[node], p)
	l.dirty[node] = true
	return p
}

// leave deletes a pod.
func (l *lab) leave(p *v1.Pod) {
	for name := range l.on {
		l.on[name] = slices.DeleteFunc(l.on[name], func(q *v1.Pod) bool { return q.UID == p.UID })
		l.dirty[name] = true
	}
	l.Deleted(p)
}

// visit passes on the nodes that changed, as a scheduler does.
func (l *lab) visit(all bool, set func(Node), gone func(string)) {
	for _, name := range slices.Sorted(maps.Keys(l.nodes)) {
		if all || l.dirty[name] {
			set(Node{l.nodes[name], l.on[name]})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.dirty)) {
		if l.nodes[name] == nil {
			gone(name)
		}
	}
	clear(l.dirty)
}

func (l *lab) sync() {
	l.settle()
	l.Sync(l.visit)
}

// rank begins a cycle with all nodes that are not cordoned.
func (l *lab) rank(p *v1.Pod) *Verdict {
	l.sync()
	var names []string
	for name, n := range l.nodes {
		if !n.Spec.Unschedulable {
			names = append(names, name)
		}
	}
	return l.Rank(context.Background(), p, names)
}

// place is a cycle; without a preference the pod goes to the first node.
func (l *lab) place(p *v1.Pod) *Verdict {
	v := l.rank(p)
	node := "a"
	if v.Decides && len(v.Ranked) > 0 {
		node = v.Ranked[0].Node
	}
	l.Reserve(l.stand(p, node), node, v)
	return v
}

// decisions are those in the log, which has to be right.
func (l *lab) decisions() []*ledger.Event {
	l.Helper()
	l.verify()
	return l.logged(ledger.KindDecide)
}

func (l *lab) verify() *ledger.Verdict {
	l.Helper()
	l.flush()
	return ledgertest.Verify(l, l.path)
}

func (l *lab) logged(kind ledger.Kind) []*ledger.Event {
	l.Helper()
	l.flush()
	return ledgertest.Events(l, l.path, kind)
}

// flush writes the decision log.
func (l *lab) flush() {
	l.settle()
	l.mu.Lock()
	l.state.log.flush()
	l.mu.Unlock()
	l.settle()
}

// settle waits until no beginning of the log is under way.
func (l *lab) settle() {
	if l.hasty {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.log.await()
}

// told returns the events since its last call.
func (l *lab) told() []string {
	var list []string
	for {
		select {
		case e := <-l.events:
			list = append(list, e)
		default:
			return list
		}
	}
}

func (l *lab) counter(m metrics.CounterMetric) int {
	l.Helper()
	value, err := testutil.GetCounterMetricValue(m)
	require.NoError(l, err)
	return int(value)
}

func (l *lab) gauge(m metrics.GaugeMetric) float64 {
	l.Helper()
	value, err := testutil.GetGaugeMetricValue(m)
	require.NoError(l, err)
	return value
}

func (l *lab) fallbacks(reason string) int {
	l.Helper()
	return l.counter(l.metrics.fallbacks.WithLabelValues(reason))
}

// shipped is a policy that Sigma ships, live, with changes.
func shipped(t testing.TB, name string, changes ...func(*policy.Spec)) *policy.Object {
	t.Helper()
	text, err := shippedpolicies.Files.ReadFile(name + ".yaml")
	require.NoError(t, err)
	object, err := policy.Parse(name, text)
	require.NoError(t, err)
	object.Spec.Mode = policy.Live
	for _, change := range changes {
		change(&object.Spec)
	}
	return object
}

func mode(mode policy.Mode, percent ...int) func(*policy.Spec) {
	return func(s *policy.Spec) {
		s.Mode = mode
		for _, p := range percent {
			s.CanaryPercent = new(p)
		}
	}
}

// spreading is live and prefers the emptiest node, which Best-Fit never does.
func spreading(changes ...func(*policy.Spec)) *policy.Object {
	o := &policy.Object{APIVersion: policy.APIVersion, Kind: policy.ObjectKind, Metadata: policy.Metadata{Name: "spreading"}, Spec: policy.Spec{
		FeatureVersion: 1, Model: "linear", Knowledge: "K0", Features: []string{"mean"}, Weights: []float64{-1}, Mode: policy.Live,
	}}
	for _, change := range changes {
		change(&o.Spec)
	}
	return o
}

func rule(t testing.TB, name string, spec v1alpha1.PlacementRuleSpec) *kube.Rule {
	t.Helper()
	r, err := kube.NewRule(&v1alpha1.PlacementRule{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})
	require.NoError(t, err)
	return r
}

func picks(app string) v1alpha1.PodSet {
	return v1alpha1.PodSet{Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}
}

// atMost is a rule of so many pods of an app on a node.
func atMost(t testing.TB, n int32, app string) *kube.Rule {
	t.Helper()
	return rule(t, fmt.Sprint(app, "-", n), v1alpha1.PlacementRuleSpec{PodSet: picks(app), MaxPerNode: &n})
}
