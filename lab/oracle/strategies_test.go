package oracle

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
)

const (
	cases = 4000
	gpu   = v1.ResourceName("example.com/gpu")
)

var (
	resources = []config.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: "memory", Weight: 1}, {Name: string(gpu), Weight: 1}}
	// forPacking is the shape of the documentation for bin packing.
	forPacking = []config.UtilizationShapePoint{{Utilization: 0, Score: 0}, {Utilization: 100, Score: 10}}
	names      = []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, gpu}
)

// An amount of a resource in a pod; missing is not the same as zero.
const missing = -1

// request is what a pod asks for: milli cpu, bytes, devices.
type request [3]int64

// counted is the request as NodeResourcesFit's strategies count it: a pod
// without a cpu or memory request is taken for 100m and 200Mi.
func (r request) counted() request {
	defaults := request{schedutil.DefaultMilliCPURequest, schedutil.DefaultMemoryRequest, 0}
	for d := range r {
		if r[d] == missing {
			r[d] = defaults[d]
		}
	}
	return r
}

// real is the request with nothing made up.
func (r request) real() request {
	for d := range r {
		r[d] = max(r[d], 0)
	}
	return r
}

// situation is a node, the pods on it and a pod that fits.
type situation struct {
	node request
	pods []request
	pod  request
}

func TestStrategies(t *testing.T) {
	for _, strategy := range []struct {
		policy string
		plugin fwk.ScorePlugin
		// what of a pod the plugin counts
		amounts func(request) request
	}{
		{"mostallocated", fit(t, config.MostAllocated, resources, nil), request.counted},
		{"leastallocated", fit(t, config.LeastAllocated, resources, nil), request.counted},
		{"requestedtocapacityratio", fit(t, config.RequestedToCapacityRatio, resources, forPacking), request.counted},
		{"balancedallocation", balanced(t), request.real},
	} {
		t.Run(strategy.policy, func(t *testing.T) {
			pol, err := rule.ByName(strategy.policy, rule.Options{TiesByPosition: true})
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(1, 34))
			seen := map[int64]bool{}
			for i := range cases {
				s := draw(rng)
				want := theirs(t, strategy.plugin, s)
				if got := ours(t, pol, s, strategy.amounts); got != float64(want) {
					t.Fatalf("case %d, %+v: upstream %d, ours %v", i, s, want, got)
				}
				seen[want] = true
			}
			if len(seen) < 40 {
				t.Errorf("only %d different scores in %d cases", len(seen), cases)
			}
		})
	}
}

// TestSettings: random weights of resources and random shapes.
func TestSettings(t *testing.T) {
	for _, strategy := range []config.ScoringStrategyType{config.MostAllocated, config.LeastAllocated, config.RequestedToCapacityRatio} {
		t.Run(string(strategy), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(2, 34))
			seen := map[int64]bool{}
			for i := range cases {
				settings := rule.Settings{Choice: rule.Choice{Name: strings.ToLower(string(strategy)), Resources: map[string]int64{}}}
				var weighted []config.ResourceSpec
				for _, at := range rng.Perm(len(resources))[rng.IntN(len(resources)):] {
					weight := 1 + rng.Int64N(100)
					settings.Resources[resources[at].Name] = weight
					weighted = append(weighted, config.ResourceSpec{Name: resources[at].Name, Weight: weight})
				}
				var shape []config.UtilizationShapePoint
				if strategy == config.RequestedToCapacityRatio {
					for at := rng.Int32N(60); at <= 100; at += 1 + rng.Int32N(60) {
						score := rng.Int32N(11)
						settings.Shape = append(settings.Shape, []int64{int64(at), int64(score)})
						shape = append(shape, config.UtilizationShapePoint{Utilization: at, Score: score})
					}
				}
				pol, err := settings.Policy("rule")
				if err != nil {
					t.Fatal(err)
				}
				s := draw(rng)
				want := theirs(t, fit(t, strategy, weighted, shape), s)
				if got := ours(t, pol, s, request.counted); got != float64(want) {
					t.Fatalf("case %d, %s, %+v: upstream %d, ours %v", i, &settings, s, want, got)
				}
				seen[want] = true
			}
			if len(seen) < 40 {
				t.Errorf("only %d different scores in %d cases", len(seen), cases)
			}
		})
	}
}

// A handle of a scheduler without devices, all that the plugins ask it for.
type handle struct{ fwk.Handle }

func (handle) SharedDRAManager() fwk.SharedDRAManager { return nil }

func fit(t *testing.T, kind config.ScoringStrategyType, resources []config.ResourceSpec, shape []config.UtilizationShapePoint) fwk.ScorePlugin {
	t.Helper()
	args := &config.NodeResourcesFitArgs{ScoringStrategy: &config.ScoringStrategy{Type: kind, Resources: resources}}
	if shape != nil {
		args.ScoringStrategy.RequestedToCapacityRatio = &config.RequestedToCapacityRatioParam{Shape: shape}
	}
	plugin, err := noderesources.NewFit(context.Background(), args, handle{}, feature.Features{})
	if err != nil {
		t.Fatal(err)
	}
	return plugin.(fwk.ScorePlugin)
}

func balanced(t *testing.T) fwk.ScorePlugin {
	t.Helper()
	args := &config.NodeResourcesBalancedAllocationArgs{Resources: resources}
	plugin, err := noderesources.NewBalancedAllocation(context.Background(), args, handle{}, feature.Features{})
	if err != nil {
		t.Fatal(err)
	}
	return plugin.(fwk.ScorePlugin)
}

// draw makes a node without overcommitment, even when pods without requests are
// counted at their defaults. Some nodes are full to the last byte, some have no
// devices, some pods have zero or missing requests.
func draw(rng *rand.Rand) situation {
	s := situation{node: request{
		1000 + rng.Int64N(128_000), 1<<30 + rng.Int64N(1<<39), []int64{0, 0, 4, 8}[rng.IntN(4)],
	}}
	free := s.node
	take := func(full bool) (request, bool) {
		var r request
		for d := range r {
			share := []int64{1, 2, 3, 5, 20}[rng.IntN(5)]
			r[d] = rng.Int64N(free[d]/share + 1)
			if full {
				r[d] = free[d]
			}
			switch rng.IntN(8) {
			case 0:
				r[d] = missing
			case 1:
				r[d] = 0
			}
		}
		for d, need := range r.counted() {
			if need > free[d] {
				return r, false
			}
		}
		for d, need := range r.counted() {
			free[d] -= need
		}
		return r, true
	}
	for range rng.IntN(8) {
		if r, ok := take(false); ok {
			s.pods = append(s.pods, r)
		}
	}
	for {
		r, ok := take(rng.IntN(10) == 0)
		if ok {
			s.pod = r
			return s
		}
		if free[0] < schedutil.DefaultMilliCPURequest || free[1] < schedutil.DefaultMemoryRequest {
			s.pod = request{}
			return s
		}
	}
}

// theirs is the plugin's score.
func theirs(t *testing.T, plugin fwk.ScorePlugin, s situation) int64 {
	t.Helper()
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	node.Status.Allocatable = list(s.node)
	var pods []*v1.Pod
	for i, r := range s.pods {
		pods = append(pods, pod(fmt.Sprint("pod-", i), r))
	}
	info := framework.NewNodeInfo(pods...)
	info.SetNode(node)
	incoming, state := pod("incoming", s.pod), framework.NewCycleState()
	if pre, ok := plugin.(fwk.PreScorePlugin); ok {
		status := pre.PreScore(context.Background(), state, incoming, []fwk.NodeInfo{info})
		if status.IsSkip() {
			return 0 // a skipped plugin adds nothing to any node
		}
		if !status.IsSuccess() {
			t.Fatal(status)
		}
	}
	score, status := plugin.Score(context.Background(), state, incoming, info)
	if !status.IsSuccess() {
		t.Fatal(status)
	}
	return score
}

func pod(name string, r request) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: list(r)}}}},
	}
}

func list(r request) v1.ResourceList {
	l := v1.ResourceList{}
	for d, amount := range r {
		switch {
		case amount == missing:
		case names[d] == v1.ResourceCPU:
			l[names[d]] = *resource.NewMilliQuantity(amount, resource.DecimalSI)
		default:
			l[names[d]] = *resource.NewQuantity(amount, resource.DecimalSI)
		}
	}
	return l
}

// ours is the policy's score of the same node.
func ours(t *testing.T, pol binpack.Policy, s situation, amounts func(request) request) float64 {
	t.Helper()
	inst := &binpack.Instance{
		Dimensions: []binpack.Dimension{
			{Name: "cpu", Unit: "m", One: 1000}, {Name: "memory", One: 1}, {Name: string(gpu), One: 1},
		},
		Types:    []string{""},
		Machines: []binpack.MachineLine{{Name: "node", Count: 1, Cost: 1, Capacity: s.node[:]}},
	}
	for i, r := range append(slices.Clip(s.pods), s.pod) {
		demand := amounts(r)
		inst.Groups = append(inst.Groups, binpack.Group{})
		inst.Apps = append(inst.Apps, binpack.App{Group: int32(i), Demand: demand[:], Expected: -1, Lifetime: -1})
	}
	state := binpack.NewState(inst)
	for i := range s.pods {
		if err := state.PlaceAs(int32(i), 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	out := make([]float64, 1)
	pol.Scorer(state).Score(binpack.Item{App: int32(len(s.pods))}, []int32{0}, out)
	return out[0]
}
