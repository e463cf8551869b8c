package vpa

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/logic"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/model"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
)

// TestEstimate feeds random histories of a container to both: usage of cpu and
// memory of several pods with gaps, and containers that ran out of memory. Targets and
// ranges have to agree to the millicore and the byte.
func TestEstimate(t *testing.T) {
	const cases = 10_000
	cfg := agents.DefaultVPA()
	recommender := logic.CreatePodResourceRecommender(logic.RecommendationConfig{
		SafetyMarginFraction: cfg.Margin, PodMinCPUMillicores: float64(cfg.Least.CPU), PodMinMemoryMb: float64(cfg.Least.Memory >> 20),
		TargetCPUPercentile: cfg.Target, LowerBoundCPUPercentile: cfg.Lower, UpperBoundCPUPercentile: cfg.Upper,
		TargetMemoryPercentile: cfg.Target, LowerBoundMemoryPercentile: cfg.Lower, UpperBoundMemoryPercentile: cfg.Upper,
		ConfidenceIntervalCPU: 24 * time.Hour, ConfidenceIntervalMemory: 24 * time.Hour,
	})
	d := rand.New(rand.NewPCG(3, 4))
	ooms := 0
	for i := range cases {
		ours := agents.NewVPA(mpa.Target{Containers: []mpa.ContainerSpec{{Name: "app", CPU: true, Memory: true}}}, cfg)
		aggregate := model.NewAggregateContainerState()
		pods := make([]*model.ContainerState, 1+d.IntN(4))
		for p := range pods {
			pods[p] = model.NewContainerState(nil, aggregate)
		}
		killed := make([]time.Time, len(pods))
		cpu, memory := int64(1+d.IntN(4000)), int64(1+d.IntN(4000))<<20
		request := mpa.Resources{CPU: cpu, Memory: memory * int64(1+d.IntN(3)) / 2}
		now := time.Date(2026, 1, 1, d.IntN(24), 0, 0, 0, time.UTC)
		every := time.Duration(1+d.IntN(90)) * time.Minute
		var o mpa.Observation
		for range 1 + d.IntN(40) {
			now = now.Add(every)
			o = mpa.Observation{Time: now}
			for p, state := range pods {
				pod := mpa.Pod{Name: fmt.Sprint(p), Phase: mpa.Running}
				k := mpa.Container{Name: "app", Request: request, Killed: killed[p]}
				if d.IntN(30) == 0 {
					ooms++
					killed[p] = now.Add(-30 * time.Second)
					k.Killed = killed[p]
					if err := state.RecordOOM(k.Killed, model.ResourceAmount(request.Memory)); err != nil {
						t.Fatal(err)
					}
				}
				if d.IntN(10) > 0 {
					k.Usage = mpa.Usage{
						Resources: mpa.Resources{CPU: int64(d.Float64() * 2 * float64(cpu)), Memory: int64(d.Float64() * 2 * float64(memory))},
						Time:      now, Window: 20 * time.Second,
					}
					start := now.Add(-k.Usage.Window)
					state.AddSample(&model.ContainerUsageSample{MeasureStart: start, Usage: model.ResourceAmount(k.Usage.CPU), Resource: model.ResourceCPU})
					state.AddSample(&model.ContainerUsageSample{MeasureStart: start, Usage: model.ResourceAmount(k.Usage.Memory), Resource: model.ResourceMemory})
				}
				pod.Containers = []mpa.Container{k}
				o.Pods = append(o.Pods, pod)
			}
			ours.Observe(&o)
		}
		if aggregate.TotalSamplesCount == 0 {
			continue
		}
		theirs := recommender.GetRecommendedPodResources(model.ContainerNameToAggregateStateMap{"app": aggregate})["app"]
		e, ok := ours.Estimate(0)
		if !ok {
			t.Fatalf("case %d: no estimate", i)
		}
		compare(t, i, "target", e.Target, theirs.Target)
		compare(t, i, "lower", e.Lower, theirs.LowerBound)
		compare(t, i, "upper", e.Upper, theirs.UpperBound)
	}
	if ooms < cases/10 {
		t.Fatalf("only %d kills in %d cases", ooms, cases)
	}
}

func compare(t *testing.T, i int, what string, ours mpa.Resources, theirs model.Resources) {
	t.Helper()
	for _, r := range []struct {
		name model.ResourceName
		got  int64
	}{{model.ResourceCPU, ours.CPU}, {model.ResourceMemory, ours.Memory}} {
		want := int64(theirs[r.name])
		// One unit for the order of multiplications.
		if r.got != want && math.Abs(float64(r.got-want)) > 1+1e-12*float64(want) {
			t.Fatalf("case %d: %s %s %d, upstream's %d", i, what, r.name, r.got, want)
		}
	}
}
