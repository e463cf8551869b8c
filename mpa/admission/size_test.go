package admission

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/actuate"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/target"
)

func parse[T any](t *testing.T, text string) T {
	t.Helper()
	var o T
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), &o))
	return o
}

// object returns an object that sizes `main` and `log`, with further constraints of main.
func object(t *testing.T, bounds, recommended string) *v1alpha1.MultidimPodAutoscaler {
	t.Helper()
	if recommended == "" {
		recommended = "{name: main, cpu: 1, memory: 2Gi}"
	}
	o := parse[v1alpha1.MultidimPodAutoscaler](t, `
metadata: {name: web, namespace: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  mode: InPlace
  constraints:
    replicas: {max: 10}
    containers: [{name: main, controlled: [cpu, memory]`+bounds+`}, {name: log, controlled: [memory]}]
status:
  recommendation: {id: 7, time: "2026-01-02T03:04:05.000000Z", change: Requests, replicas: 3, containers: [`+recommended+`]}
`)
	return &o
}

// By use, limits stay: they bound the request, and a LimitRange the ratio of both.
func TestSizeByUse(t *testing.T) {
	pod := func(resources string) v1.Pod {
		return parse[v1.Pod](t, "spec: {containers: [{name: main, resources: "+resources+"}]}")
	}
	ranges := []v1.LimitRange{parse[v1.LimitRange](t, "spec: {limits: [{type: Container, maxLimitRequestRatio: {cpu: 4, memory: 3}}]}")}
	for _, c := range []struct {
		name, before, recommended, after string
		ranges                           []v1.LimitRange
		err                              error
	}{
		{"they stay", "{requests: {cpu: 500m, memory: 1Gi}, limits: {cpu: 1, memory: 2Gi}}", "{name: main, cpu: 100m, memory: 300Mi}", "{requests: {cpu: 100m, memory: 300Mi}, limits: {cpu: 1, memory: 2Gi}}", nil, nil},
		{"they bound", "{requests: {cpu: 500m, memory: 1Gi}, limits: {cpu: 1, memory: 2Gi}}", "{name: main, cpu: 3, memory: 1Gi}", "{requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 1, memory: 2Gi}}", nil, nil},
		{"a ratio", "{requests: {cpu: 500m, memory: 1Gi}, limits: {cpu: 1, memory: 3Gi}}", "{name: main, cpu: 100m, memory: 300Mi}", "{requests: {cpu: 250m, memory: 1Gi}, limits: {cpu: 1, memory: 3Gi}}", ranges, nil},
		{"Guaranteed", "{requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 1, memory: 1Gi}}", "{name: main, cpu: 100m, memory: 300Mi}", "", nil, errQoS},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := object(t, "", c.recommended)
			o.Spec.Recommender.Algorithm = v1alpha1.AlgorithmUsage
			p := pod(c.before)
			_, err := size(&p, o.Status.Recommendation.Containers, o.Spec.Constraints.Containers, o.ByUse(), c.ranges, nil)
			require.ErrorIs(t, err, c.err)
			if c.err == nil {
				after := pod(c.after)
				require.Empty(t, difference(target.Containers(&after.Spec), target.Containers(&p.Spec)))
				require.Equal(t, after.Spec.Containers[0].Resources.Limits.Cpu().String(), p.Spec.Containers[0].Resources.Limits.Cpu().String())
				require.Equal(t, after.Spec.Containers[0].Resources.Limits.Memory().String(), p.Spec.Containers[0].Resources.Limits.Memory().String())
			}
		})
	}
}

func TestSize(t *testing.T) {
	tests := []struct {
		name, containers, bounds, recommended, ranges, quota string
		want, changes, err                                   string
	}{
		{
			name:       "requests alone",
			containers: "[{name: main, resources: {requests: {cpu: 500m, memory: 1Gi}}}]",
			want:       "[{name: main, resources: {requests: {cpu: 1, memory: 2Gi}}}]",
			changes:    "main: cpu 500m to 1, memory 1Gi to 2Gi",
		},
		{
			name:       "limits keep their ratio",
			containers: "[{name: main, resources: {requests: {cpu: 300m, memory: 1Gi}, limits: {cpu: 1, memory: 1536Mi}}}]",
			want:       "[{name: main, resources: {requests: {cpu: 1, memory: 2Gi}, limits: {cpu: 3333m, memory: 3Gi}}}]",
			changes:    "main: cpu 300m to 1, memory 1Gi to 2Gi",
		},
		{
			name:       "guaranteed stays guaranteed",
			containers: "[{name: main, resources: {requests: {cpu: 300m, memory: 1Gi}, limits: {cpu: 300m, memory: 1Gi}}}]",
			want:       "[{name: main, resources: {requests: {cpu: 1, memory: 2Gi}, limits: {cpu: 1, memory: 2Gi}}}]",
			changes:    "main: cpu 300m to 1, memory 1Gi to 2Gi",
		},
		{
			name:       "a container that is not listed keeps its size",
			containers: "[{name: other, resources: {requests: {cpu: 1}}}, {name: main, resources: {requests: {cpu: 2, memory: 2Gi}}}]",
			want:       "[{name: other, resources: {requests: {cpu: 1}}}, {name: main, resources: {requests: {cpu: 1, memory: 2Gi}}}]",
			changes:    "main: cpu 2 to 1",
		},
		{
			name:       "a resource that is not controlled stays",
			containers: "[{name: log, resources: {requests: {cpu: 10m, memory: 64Mi}}}]", recommended: "{name: log, cpu: 1, memory: 128Mi}",
			want:    "[{name: log, resources: {requests: {cpu: 10m, memory: 128Mi}}}]",
			changes: "log: memory 64Mi to 128Mi",
		},
		{
			name:       "recommended, but not listed any more",
			containers: "[{name: other, resources: {requests: {cpu: 1}}}]", recommended: "{name: other, cpu: 2}",
			want: "[{name: other, resources: {requests: {cpu: 1}}}]",
		},
		{
			name:       "the size that it has",
			containers: "[{name: main, resources: {requests: {cpu: 1000m, memory: 2048Mi}}}]",
			want:       "[{name: main, resources: {requests: {cpu: 1000m, memory: 2048Mi}}}]",
		},
		{
			name:       "the bounds have changed since",
			containers: "[{name: main, resources: {requests: {cpu: 500m, memory: 1Gi}}}]",
			bounds:     ", minAllowed: {memory: 3Gi}, maxAllowed: {cpu: 700m}",
			want:       "[{name: main, resources: {requests: {cpu: 700m, memory: 2Gi}}}]",
			changes:    "main: cpu 500m to 700m, memory 1Gi to 2Gi",
		},
		{
			name:       "best effort stays best effort",
			containers: "[{name: main}]", err: "another size would change its QoS class BestEffort",
		},
		{
			name:       "a request that was missing, beside others",
			containers: "[{name: main}, {name: other, resources: {requests: {cpu: 1}}}]",
			want:       "[{name: main, resources: {requests: {cpu: 1, memory: 2Gi}}}, {name: other, resources: {requests: {cpu: 1}}}]",
			changes:    "main: cpu 0 to 1, memory 0 to 2Gi",
		},
		{
			name:       "no ratio to keep",
			containers: "[{name: main, resources: {requests: {cpu: 0, memory: 2Gi}, limits: {cpu: 600m}}}]",
			want:       "[{name: main, resources: {requests: {cpu: 0, memory: 2Gi}, limits: {cpu: 600m}}}]",
		},
		{
			name:       "a limit that rounding would make equal",
			containers: "[{name: main, resources: {requests: {cpu: 999m, memory: 2Gi}, limits: {cpu: 1, memory: 2Gi}}}]", recommended: "{name: main, cpu: 25m}",
			err: "another size would change its QoS class Burstable",
		},
		{
			name:       "a range for containers: the limit is what counts",
			containers: "[{name: main, resources: {requests: {cpu: 500m, memory: 1Gi}, limits: {cpu: 1, memory: 1Gi}}}]",
			ranges:     "{type: Container, max: {cpu: 1500m, memory: 1536Mi}}",
			want:       "[{name: main, resources: {requests: {cpu: 750m, memory: 1536Mi}, limits: {cpu: 1500m, memory: 1536Mi}}}]",
			changes:    "main: cpu 500m to 750m, memory 1Gi to 1536Mi",
		},
		{
			name:       "a range's minimum",
			containers: "[{name: main, resources: {requests: {cpu: 500m, memory: 2Gi}}}]", recommended: "{name: main, cpu: 50m}",
			ranges:  "{type: Container, min: {cpu: 200m}}",
			want:    "[{name: main, resources: {requests: {cpu: 200m, memory: 2Gi}}}]",
			changes: "main: cpu 500m to 200m",
		},
		{
			name:        "a range for pods takes the same share from each",
			containers:  "[{name: main, resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 1, memory: 1Gi}}}, {name: log, resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 1, memory: 1Gi}}}]",
			recommended: "{name: main, memory: 3Gi}, {name: log, memory: 3Gi}",
			ranges:      "{type: Pod, max: {memory: 4Gi}}",
			want:        "[{name: main, resources: {requests: {cpu: 1, memory: 2Gi}, limits: {cpu: 1, memory: 2Gi}}}, {name: log, resources: {requests: {cpu: 1, memory: 2Gi}, limits: {cpu: 1, memory: 2Gi}}}]",
			changes:     "main: memory 1Gi to 2Gi; log: memory 1Gi to 2Gi",
		},
		{
			name:       "a quota has room",
			containers: "[{name: main, resources: {requests: {cpu: 500m, memory: 1Gi}}}]",
			quota:      "{hard: {requests.cpu: 10, memory: 10Gi}, used: {requests.cpu: 9, memory: 8Gi}}",
			want:       "[{name: main, resources: {requests: {cpu: 1, memory: 2Gi}}}]",
			changes:    "main: cpu 500m to 1, memory 1Gi to 2Gi",
		},
		{
			name:       "a quota has no room",
			containers: "[{name: main, resources: {requests: {cpu: 500m, memory: 1Gi}}}]",
			quota:      "{hard: {requests.memory: 10Gi}, used: {requests.memory: 8.5Gi}}", err: "a ResourceQuota leaves no room: q",
		},
		{
			name:       "a quota for limits",
			containers: "[{name: main, resources: {requests: {cpu: 500m, memory: 2Gi}, limits: {cpu: 1}}}]",
			quota:      "{hard: {limits.cpu: 10}, used: {limits.cpu: 8.5}}", err: "a ResourceQuota leaves no room: q",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var pod v1.Pod
			pod.Spec.Containers = parse[[]v1.Container](t, tt.containers)
			ranges := []v1.LimitRange{{Spec: v1.LimitRangeSpec{Limits: parse[[]v1.LimitRangeItem](t, "["+tt.ranges+"]")}}}
			var quotas []v1.ResourceQuota
			if tt.quota != "" {
				quotas = []v1.ResourceQuota{{Status: parse[v1.ResourceQuotaStatus](t, tt.quota)}}
				quotas[0].Name = "q"
			}
			o := object(t, tt.bounds, tt.recommended)
			was := o.DeepCopy()
			changes, err := size(&pod, o.Status.Recommendation.Containers, o.Spec.Constraints.Containers, o.ByUse(), ranges, quotas)
			require.Equal(t, was, o, "it is a cache's")
			if tt.err != "" {
				require.EqualError(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.changes, changes)
			requireSame(t, parse[[]v1.Container](t, tt.want), pod.Spec.Containers)
			again, err := size(&pod, o.Status.Recommendation.Containers, o.Spec.Constraints.Containers, o.ByUse(), ranges, quotas)
			require.NoError(t, err)
			if tt.quota == "" {
				require.Empty(t, again, "asked twice")
			}
		})
	}
}

func requireSame(t *testing.T, want, got []v1.Container) {
	t.Helper()
	a, err := yaml.Marshal(want)
	require.NoError(t, err)
	b, err := yaml.Marshal(got)
	require.NoError(t, err)
	require.Equal(t, string(a), string(b))
}

// TestUpdaterAgrees: the updater finds nothing to change in a pod that got its size here.
// Otherwise it would resize it at once, and might restart its containers.
func TestUpdaterAgrees(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	amounts := func(cpu, memory int64) v1.ResourceList {
		return v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(cpu, resource.DecimalSI), v1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI)}
	}
	for range 1000 {
		cpu, memory := 1+rng.Int64N(4000), 1+rng.Int64N(1<<32)
		pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{
			Requests: amounts(cpu, memory), Limits: amounts(cpu+rng.Int64N(3)*rng.Int64N(4000), memory+rng.Int64N(3)*rng.Int64N(1<<32)),
		}}}}}
		template := pod.DeepCopy()
		want := mpa.Resources{CPU: 1 + rng.Int64N(4000), Memory: 1 + rng.Int64N(1<<32)}
		list := amounts(want.CPU, want.Memory)
		_, err := size(pod, []v1alpha1.ContainerRequests{{Name: "main", CPU: list.Cpu(), Memory: list.Memory()}}, object(t, "", "").Spec.Constraints.Containers, false, nil, nil)
		if err != nil { // its QoS class would change
			continue
		}
		plan := actuate.PlanPod(pod, &template.Spec, map[string]mpa.Resources{"main": want}, actuate.LimitsFollow)
		require.Empty(t, plan.Containers, "%v of %v", pod.Spec.Containers[0].Resources, template.Spec.Containers[0].Resources)
	}
}

func TestSizeOfSidecarAndPodLevel(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	pod := v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Name: "log", RestartPolicy: &always}, {Name: "main"}},
		Containers:     parse[[]v1.Container](t, "[{name: app, resources: {requests: {cpu: 1}}}]"),
	}}
	o := object(t, "", "{name: log, memory: 1Gi}, {name: main, memory: 1Gi}")
	changes, err := size(&pod, o.Status.Recommendation.Containers, o.Spec.Constraints.Containers, o.ByUse(), nil, nil)
	require.NoError(t, err)
	require.Equal(t, "log: memory 0 to 1Gi", changes, "an init container that ends is not sized")

	pod.Spec.InitContainers[0].Resources = v1.ResourceRequirements{}
	pod.Spec.Resources = &v1.ResourceRequirements{}
	_, err = size(&pod, o.Status.Recommendation.Containers, o.Spec.Constraints.Containers, o.ByUse(), nil, nil)
	require.ErrorIs(t, err, errPodLevel)
}

// For random pods, recommendations and limits: the class stays, an admitted pod stays
// admitted, bounds hold, and ratios are kept to a thousandth.
func TestSizeKeepsWhatItMust(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	random := func(none int, unit int64) *resource.Quantity {
		if rng.IntN(none) == 0 {
			return nil
		}
		return resource.NewMilliQuantity(unit*1000*(1+rng.Int64N(64))/16, resource.DecimalSI)
	}
	units := map[v1.ResourceName]int64{v1.ResourceCPU: 1, v1.ResourceMemory: 1 << 28}
	plain := object(t, "", "")
	sized, kept := 0, map[error]int{}
	for range 20000 {
		var pod v1.Pod
		o := plain.DeepCopy()
		bounds := &o.Spec.Constraints.Containers
		o.Status.Recommendation.Containers = nil
		for i, name := range []string{"main", "log"} {
			c := v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: v1.ResourceList{}, Limits: v1.ResourceList{}}}
			equal := rng.IntN(2) == 0
			for _, r := range slices.Sorted(maps.Keys(units)) { // the order of draws
				unit := units[r]
				request, limit := random(5, unit), random(3, unit)
				if request != nil {
					c.Resources.Requests[r] = *request
					if equal {
						limit = request
					}
				}
				if limit != nil && (request == nil || limit.Cmp(*request) >= 0) {
					c.Resources.Limits[r] = *limit
					if request == nil { // the API server's default
						c.Resources.Requests[r] = *limit
					}
				}
			}
			pod.Spec.Containers = append(pod.Spec.Containers, c)
			(*bounds)[i].Controlled = bothAmounts
			(*bounds)[i].MaxAllowed = v1alpha1.UpperAmounts{CPU: random(2, 1), Memory: random(2, 1<<28)}
			o.Status.Recommendation.Containers = append(o.Status.Recommendation.Containers,
				v1alpha1.ContainerRequests{Name: name, CPU: random(4, 1), Memory: random(4, 1<<28)})
		}
		var ranges []v1.LimitRange
		for _, kind := range []v1.LimitType{v1.LimitTypeContainer, v1.LimitTypePod} {
			item := v1.LimitRangeItem{Type: kind, Max: v1.ResourceList{}, Min: v1.ResourceList{}}
			for _, r := range slices.Sorted(maps.Keys(units)) { // the order of draws
				unit := units[r]
				if q := random(2, 2*unit); q != nil {
					item.Max[r] = *q
				}
				if q := random(2, unit/8+1); q != nil {
					item.Min[r] = *q
				}
			}
			if rng.IntN(2) == 0 {
				ranges = append(ranges, v1.LimitRange{Spec: v1.LimitRangeSpec{Limits: []v1.LimitRangeItem{item}}})
			}
		}
		before := pod.DeepCopy()
		changes, err := size(&pod, o.Status.Recommendation.Containers, o.Spec.Constraints.Containers, o.ByUse(), ranges, nil)
		if err != nil {
			kept[err]++
			continue
		}
		if changes == "" {
			continue
		}
		sized++
		require.Equal(t, qosOf(before), qosOf(&pod))
		if inRanges(before, ranges) {
			require.True(t, inRanges(&pod, ranges), "%v\n%v\n%v", before.Spec, pod.Spec, ranges)
		}
		for i, c := range pod.Spec.Containers {
			was := before.Spec.Containers[i].Resources
			for r := range units {
				request, limit := amount(r, c.Resources.Requests[r]), amount(r, c.Resources.Limits[r])
				from, most := amount(r, was.Requests[r]), amount(r, was.Limits[r])
				require.True(t, limit == 0 || request <= limit)
				if from > 0 && most > 0 {
					require.InEpsilon(t, float64(most)/float64(from), float64(limit)/float64(request), .02)
				}
				if high := quantityOf(r, (*bounds)[i].MaxAllowed.CPU, (*bounds)[i].MaxAllowed.Memory); high != nil && request > from && inRanges(before, ranges) {
					require.LessOrEqual(t, request, max(amount(r, *high), lowest(r, ranges)))
				}
			}
		}
	}
	require.Greater(t, sized, 5000)
	t.Logf("%d sized, kept: %v", sized, kept)
	require.NotZero(t, kept[errRange])
}

func lowest(r v1.ResourceName, ranges []v1.LimitRange) int64 {
	var most int64
	for _, l := range ranges {
		for _, item := range l.Spec.Limits {
			if item.Type == v1.LimitTypeContainer {
				most = max(most, amount(r, item.Min[r]))
			}
		}
	}
	return most
}

// Sizes by use are for new pods once the updater has begun with them: it converts targets of HorizontalPodAutoscalers first.
func TestWantedByUse(t *testing.T) {
	o := &v1alpha1.MultidimPodAutoscaler{}
	o.Status.Recommendation = &v1alpha1.Recommendation{ID: 2, Change: v1alpha1.ChangeRequests, Containers: []v1alpha1.ContainerRequests{{Name: "main"}}}
	require.EqualValues(t, 2, wantedOf(o).ID)
	o.Spec.Recommender.Algorithm = v1alpha1.AlgorithmUsage
	require.Empty(t, wantedOf(o).Containers)
	o.Status.Actuation = &v1alpha1.Actuation{ID: 1, Outcome: v1alpha1.OutcomeApplied, Sizes: &v1alpha1.Sizes{ID: 1, Containers: o.Status.Recommendation.Containers}}
	require.EqualValues(t, 1, wantedOf(o).ID)
	o.Status.Actuation.ID = 2
	require.EqualValues(t, 2, wantedOf(o).ID)
}
