package drain

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/defrag"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
	"github.com/sigma-scheduler/sigma/plugins/snapshot"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func node(i int, pool string) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%02d", i), UID: types.UID(fmt.Sprint("n", i)), Labels: map[string]string{"pool": pool}}}
	n.Status.Allocatable = v1.ResourceList{"cpu": apiresource.MustParse("4"), "memory": apiresource.MustParse("16Gi"), "pods": apiresource.MustParse("110")}
	return n
}

// pod of workload is ready, on a node.
func pod(workload string, i, on int, cpu string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: fmt.Sprintf("%s-7d4-%02d", workload, i), UID: types.UID(fmt.Sprint(workload, i)), Labels: map[string]string{"pod-template-hash": "7d4"},
		CreationTimestamp: metav1.NewTime(noon.Add(time.Duration(i) * time.Second)),
		OwnerReferences:   []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: workload + "-7d4", Controller: new(true)}},
	}}
	p.Spec.NodeName = fmt.Sprintf("n%02d", on)
	p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": apiresource.MustParse(cpu)}}}}
	p.Status.Phase = v1.PodRunning
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
	return p
}

// site is 12 nodes in two pools with two to four pods each, mostly half full.
func site() *snapshot.Picture {
	p := &snapshot.Picture{}
	for i := range 12 {
		p.Nodes = append(p.Nodes, node(i, []string{"a", "b"}[i/6]))
		p.Pods = append(p.Pods, pod("web", 2*i, i, "1"), pod("web", 2*i+1, i, "500m"))
		if i%3 == 0 {
			p.Pods = append(p.Pods, pod("db", i, i, "1500m"))
		}
	}
	return p
}

func defaults() *v1alpha1.RebalanceSpec {
	return &v1alpha1.RebalanceSpec{Mode: v1alpha1.RebalanceDryRun, Every: "1h", Moves: "100%", MinReplicas: 2}
}

func planOf(t *testing.T, spec *v1alpha1.RebalanceSpec, p *snapshot.Picture) (*v1alpha1.RebalancePlan, string) {
	t.Helper()
	s, err := parseSpec(spec)
	require.NoError(t, err)
	plan, found, err := s.plan(t.Context(), p, &Options{Fleet: "open"}, noon, nil, nil)
	require.NoError(t, err)
	if found == nil {
		return plan, "no pod stands on a node"
	}
	return plan, found.Why()
}

// TestPlanIsTheCommandLines compares a plan with what sigma rebalance finds in the files of
// sigma snapshot.
func TestPlanIsTheCommandLines(t *testing.T) {
	for _, moves := range []string{"100%", "20%", "3"} {
		spec := defaults()
		spec.Moves = moves
		picture := site()
		picture.Pods[0].Annotations = map[string]string{"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
		plan, _ := planOf(t, spec, picture)
		require.Positive(t, plan.Freed, moves)
		require.EqualValues(t, 1, plan.Fixed)
		for _, e := range plan.Empties {
			require.NotEqual(t, "n00", e.Node, "its pod must not move")
		}

		r := snapshot.NewRecorder("", noon)
		require.NoError(t, r.Record(picture, noon))
		made, _, err := r.Trace("snap", "open")
		require.NoError(t, err)
		folder := filepath.Join(t.TempDir(), "snap")
		require.NoError(t, made.Write(folder))
		read, err := trace.Load(folder)
		require.NoError(t, err)
		start, err := defrag.NewStart(read)
		require.NoError(t, err)
		search := defrag.Options{Share: -1, Count: -1, Seed: 1}
		require.NoError(t, search.SetMoves(moves))
		found, err := defrag.Search(t.Context(), start, search)
		require.NoError(t, err)
		require.Equal(t, []int{found.MachinesBefore, found.MachinesBefore - found.MachinesAfter, found.Bound, found.Moves, found.LeastMoves, found.Items, found.Fixed},
			[]int{int(plan.Nodes), int(plan.Freed), int(plan.Bound), int(plan.Moves), int(plan.LeastMoves), int(plan.Pods), int(plan.Fixed)})
		require.Len(t, plan.Empties, int(plan.Freed))
		for i, e := range found.Emptied() {
			require.Equal(t, v1alpha1.EmptiedNode{Node: e.Machine, Moves: int32(e.Moves)}, plan.Empties[i])
		}
	}
}

// What the spec leaves out stays out of the plan.
func TestPlanObeysTheSpec(t *testing.T) {
	all, _ := planOf(t, defaults(), site())
	require.EqualValues(t, 12, all.Nodes)

	spec := defaults()
	spec.NodeSelector = map[string]string{"pool": "b"}
	half, _ := planOf(t, spec, site())
	require.EqualValues(t, 6, half.Nodes)
	require.Positive(t, half.Freed)
	for _, e := range half.Empties {
		require.GreaterOrEqual(t, e.Node, "n06")
	}
	spec.NodeSelector["pool"] = "c"
	none, reason := planOf(t, spec, site())
	require.Zero(t, none.Nodes)
	require.Equal(t, "no pod stands on a node", reason)

	spec = defaults()
	spec.MinReplicas = 25 // web has 24
	still, reason := planOf(t, spec, site())
	require.Equal(t, still.Pods, still.Fixed)
	require.Zero(t, still.Moves)
	require.Equal(t, "no moves: no item may move", reason)

	spec = defaults()
	spec.Moves = "0%"
	still, reason = planOf(t, spec, site())
	require.Zero(t, still.Moves)
	require.Equal(t, "no moves: the budget is 0", reason)
}

// A drain does not evict batch pods, so that a node with some cannot be emptied.
func TestPlanKeepsNodesWithBatchPods(t *testing.T) {
	plan, _ := planOf(t, defaults(), site())
	require.NotEmpty(t, plan.Empties)
	node := plan.Empties[0].Node
	p := site()
	batch := pod("work", 0, 0, "1")
	batch.Spec.NodeName = node
	batch.Spec.Containers[0].Resources.Requests = v1.ResourceList{podspec.BatchCPU: apiresource.MustParse("1000")}
	p.KeepWhole() // as a snapshot leaves batch pods out
	p.AllPods = append(p.AllPods, batch)
	with, _ := planOf(t, defaults(), p)
	require.NotEmpty(t, with.Empties)
	for _, e := range with.Empties {
		require.NotEqual(t, node, e.Node)
	}
	require.Greater(t, with.Fixed, plan.Fixed)
}

// Sigma can only land what it places: in any mode, pods of other schedulers stay.
func TestPlanMovesItsOwnPods(t *testing.T) {
	for _, mode := range []v1alpha1.RebalanceMode{v1alpha1.RebalanceDryRun, v1alpha1.RebalanceAuto} {
		spec, p := defaults(), site()
		spec.Mode, spec.MovesPerHour, spec.InFlight = mode, 1, 1
		for i, pod := range p.Pods {
			pod.Spec.SchedulerName = []string{"sigma", "other"}[i%2]
		}
		s, err := parseSpec(spec)
		require.NoError(t, err)
		plan, _, err := s.plan(t.Context(), p, &Options{Fleet: "open", Profile: "sigma"}, noon, func(*v1.Pod) string { return "" }, nil)
		require.NoError(t, err)
		require.Equal(t, plan.Pods/2, plan.Fixed, mode)
	}
}

func TestDue(t *testing.T) {
	s, err := parseSpec(defaults())
	require.NoError(t, err)
	at := func(d time.Duration) *v1alpha1.RebalanceStatus {
		last := metav1.NewMicroTime(noon.Add(d))
		return &v1alpha1.RebalanceStatus{ObservedGeneration: 1, LastTime: &last, Plan: &v1alpha1.RebalancePlan{Time: last}}
	}
	require.True(t, s.due(&v1alpha1.RebalanceStatus{}, 1, 0, noon), "the first")
	require.False(t, s.due(at(-time.Hour+1), 1, 0, noon))
	require.True(t, s.due(at(-time.Hour), 1, 0, noon))
	require.True(t, s.due(at(0), 2, 0, noon), "another spec")
	require.True(t, s.due(at(time.Second), 1, 0, noon), "the clock was set back")
	for age, want := range map[time.Duration]bool{failedRetry - 1: false, failedRetry: true} {
		begun := at(-age)
		begun.Plan.Time = metav1.NewMicroTime(noon.Add(-time.Hour))
		require.Equal(t, want, s.due(begun, 1, 0, noon), "begun %v ago without an end", age)
		begun.Plan = nil
		require.Equal(t, want, s.due(begun, 1, 0, noon), "the first")
	}
	for failures, wait := range []time.Duration{time.Minute, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, failedRetry, failedRetry} {
		for age, want := range map[time.Duration]bool{wait - 1: false, wait: true} {
			stopped := at(-age)
			stopped.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionStopped, Status: metav1.ConditionTrue, Reason: failed}}
			require.Equal(t, want, s.due(stopped, 1, failures, noon), "%d failures", failures)
		}
	}
	s.spec.Suspend = true
	require.False(t, s.due(&v1alpha1.RebalanceStatus{}, 1, 0, noon))
}

// TestBadSpec: what an older definition let through.
func TestBadSpec(t *testing.T) {
	for want, edit := range map[string]func(*v1alpha1.RebalanceSpec){
		`spec.mode: "Full": want DryRun or Auto`:       func(s *v1alpha1.RebalanceSpec) { s.Mode = "Full" },
		`spec.every: "1s": want a duration from 1m on`: func(s *v1alpha1.RebalanceSpec) { s.Every = "1s" },
		`spec.moves: "all": want a number, or a share`: func(s *v1alpha1.RebalanceSpec) { s.Moves = "all" },
		"spec.minReplicas: 0: want at least 1":         func(s *v1alpha1.RebalanceSpec) { s.MinReplicas = 0 },
	} {
		spec := defaults()
		edit(spec)
		_, err := parseSpec(spec)
		require.ErrorContains(t, err, want)
	}
}
