package sigma

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	tf "k8s.io/kubernetes/pkg/scheduler/testing/framework"
	"k8s.io/utils/clock"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/drain"
	"github.com/sigma-scheduler/sigma/plugins/evict"
	"github.com/sigma-scheduler/sigma/plugins/kube"
)

// quiet is a cluster in which pods are evicted and nothing follows.
type quiet struct {
	handle  fwk.Handle
	evicted chan string
	pods    map[string]*v1.Pod
	stays   bool
	refuses error // evictions
}

func (q *quiet) Pod(_, name string) *v1.Pod                               { return q.pods[name] }
func (q *quiet) Workload(*v1.Pod) []*v1.Pod                               { return nil }
func (q *quiet) NotEvictable() func(*v1.Pod) bool                         { return func(*v1.Pod) bool { return q.stays } }
func (q *quiet) Refusal(context.Context, []*v1.Pod, ...kube.Place) string { return "" }
func (q *quiet) Activate(...*v1.Pod)                                      {}
func (q *quiet) Evicted(context.Context) (int, error)                     { return 0, nil }
func (q *quiet) Evict(_ context.Context, _ int, p *v1.Pod) error {
	q.evicted <- p.Name
	return q.refuses
}

// Ends implements [drain.Cluster].
func (q *quiet) Ends(node string) bool { return (&chainCluster{handle: q.handle}).Ends(node) }

func registerRoom(r *frameworkruntime.Registry, p *schedulerconfig.KubeSchedulerProfile) {
	// In front of preemption, as the defaults of a configuration have it.
	p.Plugins.PostFilter.Enabled = append([]schedulerconfig.Plugin{{Name: Name}}, p.Plugins.PostFilter.Enabled...)
}

func registerAffinity(registry *frameworkruntime.Registry, profile *schedulerconfig.KubeSchedulerProfile) {
	tf.RegisterPluginAsExtensions(nodeaffinity.Name, func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		return nodeaffinity.New(ctx, &schedulerconfig.NodeAffinityArgs{}, h, feature.Features{})
	}, "PreFilter", "Filter")(registry, profile)
}

// moving is a ready pod of a ReplicaSet.
func moving(name, app string) *st.PodWrapper {
	w := pod(name, app)
	w.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: app, Controller: new(true)}}
	w.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
	return w
}

// roomStage has nodes of 8 cores: on a stand db with 5 and log with 2, on b cache with 3. large, of 6 cores, fits once
// db has moved.
func roomStage(t *testing.T, mode policy.RepairMode) (s *stage, q *quiet, large *st.PodWrapper) {
	s = newStage(t, nil, registerAffinity, registerPreemption, registerRoom)
	s.addNodes(node("a", 8).Label("kind", "x"), node("b", 8).Label("kind", "y"))
	pods := []*v1.Pod{
		moving("db-1", "db").Priority(5).Node("a").Req(cores("4")).Obj(), moving("log-1", "log").Priority(100).Node("a").Obj(),
		moving("cache-1", "cache").Priority(100).Node("b").Req(cores("2")).Obj(),
	}
	large = pod("large", "large").Priority(5).Req(cores("5"))
	s.addPods(pods...)
	s.inform(append(pods, large.Obj())...)
	q = &quiet{handle: s.framework, evicted: make(chan string, 10), pods: map[string]*v1.Pod{"large": large.Obj()}}
	for _, p := range pods {
		q.pods[p.Name] = p
	}
	ctx, cancel := context.WithCancel(s.ctx)
	s.chains = drain.NewChains(ctx, s.engine, q, time.Now)
	t.Cleanup(func() { cancel(); s.chains.Wait() })
	s.decideBy(shipped(t, "hand-k0", func(spec *policy.Spec) { spec.Repair = &policy.Repair{Mode: mode, MinReplicas: new(1)} }))
	return s, q, large
}

// A chain comes before preemption, and its node stays nominated while it is under way.
func TestMakeRoomComesFirst(t *testing.T) {
	s, q, large := roomStage(t, policy.RepairEnabled)
	large.Priority(50) // it could preempt db
	c := s.filter(large.Obj())
	require.Empty(t, c.feasible)
	nominated, status := s.preempt(c, large.Obj())
	require.True(t, status.IsSuccess(), "%v", status)
	require.Equal(t, "a", nominated)
	require.Empty(t, s.deleted())
	require.Equal(t, "db-1", <-q.evicted)

	again := large.NominatedNodeName("a").Obj()
	nominated, status = s.preempt(s.filter(again), again)
	require.Equal(t, "a", nominated, "%v", status)
	require.Empty(t, s.deleted())
	const why = "PlacementPolicy/general make-room default/large: cpu is reserved for other pods"
	require.Equal(t, why, s.filter(pod("other", "other").Obj()).refused["b"].Message())

	_, assumed := s.place(moving("db-2", "db").Priority(5).Req(cores("4")).Obj())
	require.Equal(t, "b", assumed.Spec.NodeName)
	s.verify()
}

// The nomination of a chain that came to nothing is taken back, also where nobody preempts: the
// scheduler would keep others off the node. That of preemption stays.
func TestNominationEnds(t *testing.T) {
	s, q, large := roomStage(t, policy.RepairEnabled)
	q.refuses = errors.New("429")
	c := s.filter(large.Obj())
	nominated, status := s.preempt(c, large.Obj())
	require.True(t, status.IsSuccess(), "%v", status)
	require.Equal(t, "a", nominated)
	s.chains.Wait()
	for node, clears := range map[string]bool{"a": true, "b": false} {
		p := large.NominatedNodeName(node).Obj()
		c := s.filter(p)
		result, status := s.PostFilter(s.ctx, c.state, p, framework.NewDefaultNodeToStatus())
		require.Equal(t, fwk.Unschedulable, status.Code())
		require.Equal(t, clears, result != nil, node)
		if clears {
			require.Equal(t, fwk.ModeOverride, result.Mode())
			require.Empty(t, result.NominatedNodeName)
		}
	}
}

// A nomination counts while preemption makes room on the node; one that is left over keeps no pod from a chain.
func TestNominatedByPreemption(t *testing.T) {
	for _, ends := range []bool{true, false} {
		s, _, large := roomStage(t, policy.RepairEnabled)
		if ends {
			s.addPods(pod("victim", "victim").Node("a").Terminating().Obj())
		}
		p := large.NominatedNodeName("a").Obj()
		nominated, _ := s.preempt(s.filter(p), p)
		require.Equal(t, map[bool]string{true: "", false: "a"}[ends], nominated)
	}
}

// A chain gives way to a pod of higher priority that only its reservations keep off a node.
func TestChainGivesWay(t *testing.T) {
	for priority, gives := range map[int32]bool{5: false, 6: true} {
		s, q, large := roomStage(t, policy.RepairEnabled)
		nominated, status := s.preempt(s.filter(large.Obj()), large.Obj())
		require.Equal(t, "a", nominated, "%v", status)
		require.Equal(t, "db-1", <-q.evicted)
		_, assumed := s.place(moving("db-2", "db").Priority(5).Req(cores("4")).Obj())
		require.Equal(t, "b", assumed.Spec.NodeName)

		other := pod("other", "other").Priority(priority).Req(cores("1")).Obj()
		c := s.filter(other)
		require.Contains(t, c.refused["a"].Message(), "reserved for other pods")
		s.preempt(c, other)
		ended := make(chan struct{})
		go func() { s.chains.Wait(); close(ended) }()
		select {
		case <-ended:
			require.True(t, gives)
			s.place(other)
		case <-time.After(map[bool]time.Duration{false: 300 * time.Millisecond, true: 10 * time.Second}[gives]): // giving way wakes it at once
			require.False(t, gives)
		}
		s.verify()
	}
}

// Where there is no chain, preemption follows, or the pod waits as before.
func TestPreemptionFollows(t *testing.T) {
	for _, tt := range []struct {
		name   string
		mode   policy.RepairMode
		change func(*stage, *quiet, *st.PodWrapper)
	}{
		{"disabled", policy.RepairDisabled, nil},
		{"DryRun", policy.RepairDryRun, nil},
		{"a budget", policy.RepairEnabled, func(_ *stage, q *quiet, _ *st.PodWrapper) { q.stays = true }},
		{"another filter refuses the node", policy.RepairEnabled, func(_ *stage, _ *quiet, large *st.PodWrapper) { large.NodeSelector(map[string]string{"kind": "y"}) }},
		{"the place is reserved", policy.RepairEnabled, func(s *stage, _ *quiet, _ *st.PodWrapper) { s.planWeb("b") }},
		{"another pod is to come to the node", policy.RepairEnabled, func(s *stage, _ *quiet, _ *st.PodWrapper) {
			soon := pod("soon", "soon").Priority(2000).Req(cores("4")).NominatedNodeName("a").Obj()
			s.inform(soon)
			s.queue.Add(s.ctx, soon)
		}},
		{"a rule keeps it off", policy.RepairEnabled, func(s *stage, _ *quiet, _ *st.PodWrapper) {
			s.engine.SetRules([]*kube.Rule{rule(s.TB, "r", v1alpha1.PlacementRuleSpec{PodSet: picks("app", "large"), Excludes: []v1alpha1.Exclusion{{PodSet: picks("app", "log")}}})})
		}},
	} {
		for _, important := range []bool{false, true} {
			t.Run(tt.name, func(t *testing.T) {
				s, q, large := roomStage(t, tt.mode)
				if tt.change != nil {
					tt.change(s, q, large)
				}
				if important {
					large.Priority(1000)
				}
				p := large.Obj()
				nominated, status := s.preempt(s.filter(p), p)
				require.Empty(t, q.evicted)
				if important {
					require.NotEmpty(t, nominated, "%v", status)
					require.NotEmpty(t, s.deleted())
				} else {
					require.Empty(t, nominated)
					require.Equal(t, fwk.Unschedulable, status.Code())
				}
				s.verify()
			})
		}
	}
}

// away is an API server with one Deployment, whose answer to an Eviction is an error.
type away struct{ err error }

func (a *away) Workload(_ context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"readyReplicas": int64(1)}}}
	o.SetGroupVersionKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o, nil
}

func (a *away) Workloads(context.Context, schema.GroupVersionKind, string) ([]metav1.PartialObjectMetadata, error) {
	return nil, nil
}

func (a *away) List(context.Context) (*v1.ConfigMap, error) {
	return &v1.ConfigMap{Data: map[string]string{"evictions": time.Now().UTC().Format(time.RFC3339) + "/make-room:general/a/apps/ReplicaSet/default/other"}}, nil
}

func (a *away) PatchList(ctx context.Context, _ types.PatchType, _ []byte) (*v1.ConfigMap, error) {
	return a.List(ctx)
}

func (a *away) Patch(context.Context, schema.GroupVersionKind, string, string, []byte) error {
	return nil
}
func (a *away) Evict(context.Context, *policyv1.Eviction) error { return a.err }

// A pod that is gone counts as evicted: its replacement needs its place. A lost answer is reported as such.
func TestEvictionWithoutAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		err          error
		ends, unsure bool
	}{
		"a lost answer": {errors.New("EOF"), true, true},
		"gone":          {apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "db-1"), false, false},
		"refused":       {apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "db-1", nil), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := moving("db-1", "db").Node("a").Namespace("default").Obj()
			p.OwnerReferences[0].APIVersion = "apps/v1"
			c := &chainCluster{evictor: evict.New(&away{tt.err}, evict.MakeRoom, evict.Defaults, clock.RealClock{}), by: "make-room:general"}
			err := c.Evict(t.Context(), 2, p)
			require.Equal(t, tt.ends, err != nil, "%v", err)
			_, unsure := errors.AsType[*evict.UncertainError](err)
			require.Equal(t, tt.unsure, unsure)
			limit := &evict.LimitError{}
			require.ErrorAs(t, c.Evict(t.Context(), 1, p), &limit, "one is written there")
			require.Equal(t, "source make-room:general", limit.Limit)
			n, err := c.Evicted(t.Context())
			require.NoError(t, err)
			require.Equal(t, 1, n)
		})
	}
}
