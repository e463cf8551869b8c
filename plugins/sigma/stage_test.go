package sigma

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	tf "k8s.io/kubernetes/pkg/scheduler/testing/framework"

	"github.com/sigma-scheduler/sigma/benchdata/policies"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/apis/config"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/ledger/ledgertest"
)

func TestMain(m *testing.M) {
	metrics.Register() // the framework's plugins count
	os.Exit(m.Run())
}

// A stage is a profile of a scheduler with Sigma in it, over the scheduler's own
// cache. Its cycles are the scheduler's, without queue and binding.
type stage struct {
	testing.TB
	ctx       context.Context
	log       string // path of the decision log
	cache     internalcache.Cache
	snapshot  *internalcache.Snapshot
	informers informers.SharedInformerFactory
	queue     internalqueue.SchedulingQueue
	client    *fake.Clientset
	activated activated
	framework framework.Framework
	*Plugin
}

// newStage takes changes to the arguments, and further plugins.
func newStage(t testing.TB, change func(*config.SigmaArgs), others ...tf.RegisterPluginFunc) *stage {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	s := &stage{
		TB: t, ctx: ctx, log: filepath.Join(t.TempDir(), "decisions.jsonl"),
		cache: internalcache.New(ctx, nil, false), snapshot: internalcache.NewEmptySnapshot(), client: fake.NewClientset(),
		activated: make(activated, 100),
	}
	s.informers = informers.NewSharedInformerFactory(s.client, 0)
	s.queue = internalqueue.NewSchedulingQueue((&queuesort.PrioritySort{}).Less, s.informers)
	args := &config.SigmaArgs{
		PolicyName: "general", AppLabel: "app", Mapping: config.MappingRank, Fleet: config.FleetFixed,
		DecisionLog: s.log, ForecastMaxAge: metav1.Duration{Duration: time.Hour},
	}
	if change != nil {
		change(args)
	}
	plugins := append([]tf.RegisterPluginFunc{
		tf.RegisterQueueSortPlugin(queuesort.Name, queuesort.New), tf.RegisterBindPlugin(defaultbinder.Name, defaultbinder.New), registerFit,
		func(registry *frameworkruntime.Registry, profile *schedulerconfig.KubeSchedulerProfile) {
			tf.RegisterPluginAsExtensions(Name, s.create, "PreFilter", "Filter", "PreScore", "Score", "Reserve")(registry, profile)
			profile.PluginConfig = slices.DeleteFunc(profile.PluginConfig, func(c schedulerconfig.PluginConfig) bool { return c.Name == Name })
			profile.PluginConfig = append(profile.PluginConfig, schedulerconfig.PluginConfig{Name: Name, Args: args})
		},
	}, others...)
	var err error
	s.framework, err = tf.NewFramework(ctx, plugins, fmt.Sprintf("%s-%p", t.Name(), s),
		frameworkruntime.WithClientSet(s.client), frameworkruntime.WithInformerFactory(s.informers),
		frameworkruntime.WithEventRecorder(&events.FakeRecorder{}), frameworkruntime.WithSnapshotSharedLister(s.snapshot),
		frameworkruntime.WithPodNominator(s.queue),
		frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()),
		frameworkruntime.WithPodActivator(s.activated), frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()))
	require.NoError(t, err)
	return s
}

func (s *stage) create(ctx context.Context, args runtime.Object, h fwk.Handle) (_ fwk.Plugin, err error) {
	s.Plugin, err = build(ctx, args, h, nil)
	return s.Plugin, err
}

func registerFit(registry *frameworkruntime.Registry, profile *schedulerconfig.KubeSchedulerProfile) {
	tf.RegisterPluginAsExtensions(noderesources.Name, frameworkruntime.FactoryAdapter(feature.Features{}, noderesources.NewFit), "PreFilter", "Filter")(registry, profile)
}

func registerPreemption(registry *frameworkruntime.Registry, profile *schedulerconfig.KubeSchedulerProfile) {
	factory := frameworkruntime.FactoryAdapter(feature.Features{}, defaultpreemption.New)
	tf.RegisterPluginAsExtensions(defaultpreemption.Name, factory)(registry, profile)
	profile.Plugins.PostFilter.Enabled = append(profile.Plugins.PostFilter.Enabled, schedulerconfig.Plugin{Name: defaultpreemption.Name})
}

// activated are the pods that the scheduler was asked to try again.
type activated chan string

func (a activated) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	for name := range pods {
		a <- name
	}
}

// shipped is a policy that Sigma ships, live, with changes.
func shipped(t testing.TB, name string, changes ...func(*policy.Spec)) *policy.Object {
	t.Helper()
	text, err := policies.Files.ReadFile(name + ".yaml")
	require.NoError(t, err)
	object, err := policy.Parse(name, text)
	require.NoError(t, err)
	object.Spec.Mode = policy.Live
	for _, change := range changes {
		change(&object.Spec)
	}
	return object
}

// decideBy puts a policy in force, with a forecast.
func (s *stage) decideBy(object *policy.Object) {
	s.engine.SetPolicy(ledger.Primary, object)
	s.engine.SetDeclared(&kube.Declarations{})
}

func rule(t testing.TB, name string, spec v1alpha1.PlacementRuleSpec) *kube.Rule {
	t.Helper()
	r, err := kube.NewRule(&v1alpha1.PlacementRule{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})
	require.NoError(t, err)
	return r
}

// picks is the set of pods with a label, in namespaces.
func picks(key, value string, namespaces ...string) v1alpha1.PodSet {
	set := v1alpha1.PodSet{Namespaces: namespaces}
	if key != "" {
		set.Selector.MatchLabels = map[string]string{key: value}
	}
	return set
}

// node has cores and 4 GiB for each.
func node(name string, cores int) *st.NodeWrapper {
	return st.MakeNode().Name(name).Label(v1.LabelHostname, name).Capacity(map[v1.ResourceName]string{
		v1.ResourceCPU: fmt.Sprint(cores), v1.ResourceMemory: fmt.Sprint(4*cores, "Gi"), v1.ResourcePods: "110",
	})
}

// pod of an app asks for one core and 1 GiB.
func pod(name, app string) *st.PodWrapper {
	return st.MakePod().Namespace("default").Name(name).UID(name).Label("app", app).
		Req(map[v1.ResourceName]string{v1.ResourceCPU: "1", v1.ResourceMemory: "1Gi"})
}

func (s *stage) addNodes(nodes ...*st.NodeWrapper) {
	for _, n := range nodes {
		s.cache.AddNode(klog.Background(), n.Obj())
	}
}

// addPods reports pods that have a node, as informers do.
func (s *stage) addPods(pods ...*v1.Pod) {
	s.Helper()
	for _, p := range pods {
		require.NoError(s, s.cache.AddPod(klog.Background(), p))
	}
}

func (s *stage) removePods(pods ...*v1.Pod) {
	s.Helper()
	for _, p := range pods {
		require.NoError(s, s.cache.RemovePod(klog.Background(), p))
	}
}

// A cycle is a pod's scheduling cycle as far as it went.
type cycle struct {
	state    fwk.CycleState
	feasible []fwk.NodeInfo
	refused  map[string]*fwk.Status
	status   *fwk.Status      // of PreFilter
	scores   map[string]int64 // of Sigma; empty when it is skipped
}

// filter begins a cycle: which nodes pass?
func (s *stage) filter(p *v1.Pod) *cycle {
	s.Helper()
	c := &cycle{state: framework.NewCycleState(), refused: map[string]*fwk.Status{}, scores: map[string]int64{}}
	require.NoError(s, s.cache.UpdateSnapshot(klog.Background(), s.snapshot))
	_, c.status, _ = s.framework.RunPreFilterPlugins(s.ctx, c.state, p)
	if !c.status.IsSuccess() {
		return c
	}
	all, err := s.snapshot.NodeInfos().List()
	require.NoError(s, err)
	for _, info := range all {
		if status := s.framework.RunFilterPluginsWithNominatedPods(s.ctx, c.state, p, info); !status.IsSuccess() {
			c.refused[info.Node().Name] = status
			continue
		}
		c.feasible = append(c.feasible, info)
	}
	return c
}

// score scores the feasible nodes, in their order.
func (s *stage) score(c *cycle, p *v1.Pod) {
	s.Helper()
	if len(c.feasible) < 2 {
		return
	}
	require.True(s, s.framework.RunPreScorePlugins(s.ctx, c.state, p, c.feasible).IsSuccess())
	all, status := s.framework.RunScorePlugins(s.ctx, c.state, p, c.feasible)
	require.True(s, status.IsSuccess(), "%v", status.AsError())
	for _, n := range all {
		for _, score := range n.Scores {
			if score.Name == Name {
				c.scores[n.Name] = score.Score
			}
		}
	}
}

// best is the node with the highest score; "" when no score is the highest.
func (c *cycle) best() string {
	if len(c.feasible) == 1 {
		return c.feasible[0].Node().Name
	}
	name, most, ties := "", int64(-1), 0
	for _, n := range slices.Sorted(maps.Keys(c.scores)) {
		switch score := c.scores[n]; {
		case score > most:
			name, most, ties = n, score, 1
		case score == most:
			ties++
		}
	}
	if ties > 1 {
		return ""
	}
	return name
}

// assume ends a cycle: the pod goes to a node. It gives the pod as the cache has it.
func (s *stage) assume(c *cycle, p *v1.Pod, node string) *v1.Pod {
	s.Helper()
	assumed := p.DeepCopy()
	assumed.Spec.NodeName = node
	require.NoError(s, s.cache.AssumePod(klog.Background(), assumed))
	require.True(s, s.framework.RunReservePluginsReserve(s.ctx, c.state, assumed, node).IsSuccess())
	return assumed
}

// fail makes the binding of an assumed pod fail.
func (s *stage) fail(c *cycle, assumed *v1.Pod) {
	s.Helper()
	s.framework.RunReservePluginsUnreserve(s.ctx, c.state, assumed, assumed.Spec.NodeName)
	require.NoError(s, s.cache.ForgetPod(klog.Background(), assumed))
}

// place is a whole cycle. It gives the assumed pod; nil when no node passes.
func (s *stage) place(p *v1.Pod) (*cycle, *v1.Pod) {
	s.Helper()
	c := s.filter(p)
	s.score(c, p)
	if len(c.feasible) == 0 {
		return c, nil
	}
	best := c.best()
	require.NotEmpty(s, best, "scores %v", c.scores)
	return c, s.assume(c, p, best)
}

// verify closes the decision log and computes it again.
func (s *stage) verify() *ledger.Verdict {
	s.Helper()
	require.NoError(s, s.engine.Close())
	return ledgertest.Verify(s.TB, s.log)
}

// events are those of a kind in the decision log.
func (s *stage) events(kind ledger.Kind) []*ledger.Event {
	s.Helper()
	require.NoError(s, s.engine.Close())
	return ledgertest.Events(s.TB, s.log, kind)
}
