package actuate

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/target"
)

func list(cpu, memory string) corev1.ResourceList {
	l := corev1.ResourceList{}
	if cpu != "" {
		l[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		l[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return l
}

func container(name string, requests, limits corev1.ResourceList) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}
}

// running is a pod that has what it requests.
func running(containers ...corev1.Container) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{Containers: containers}}
	p.Status.Phase = corev1.PodRunning
	for _, c := range containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, Resources: c.Resources.DeepCopy(),
		})
	}
	return p
}

// text is a container's resources as text.
func text(r corev1.ResourceRequirements) string {
	return fmt.Sprintf("%s %s of %s %s", r.Requests.Cpu(), r.Requests.Memory(), r.Limits.Cpu(), r.Limits.Memory())
}

// A request by use leaves the limits as they are, and a Guaranteed pod.
func TestPlanLimits(t *testing.T) {
	const mi = 1 << 20
	burstable := container("web", list("500m", "256Mi"), list("1", "512Mi"))
	for _, c := range []struct {
		name          string
		pod, template corev1.Container
		limits        Limits
		want          mpa.Resources
		get, left     string
	}{
		{"they stay", burstable, burstable, LimitsStay, mpa.Resources{CPU: 100, Memory: 100 * mi}, "100m 100Mi of 1 512Mi", ""},
		{"they bound the request", burstable, burstable, LimitsStay, mpa.Resources{CPU: 1500, Memory: 300 * mi}, "1 300Mi of 1 512Mi", ""},
		{"no limits", container("web", list("500m", "256Mi"), nil), burstable, LimitsStay, mpa.Resources{CPU: 100}, "100m 256Mi of 0 0", ""},
		{"larger ones that others gave stay", container("web", list("500m", "256Mi"), list("2", "1Gi")), burstable, LimitsStay, mpa.Resources{CPU: 100, Memory: 100 * mi}, "100m 100Mi of 2 1Gi", ""},
		{"another algorithm made them smaller", container("web", list("100m", "100Mi"), list("200m", "200Mi")), burstable, LimitsStay, mpa.Resources{CPU: 150, Memory: 110 * mi}, "150m 110Mi of 1 512Mi", ""},
		{"back to the template", container("web", list("100m", "100Mi"), list("2", "200Mi")), burstable, LimitsOfTemplate, mpa.Resources{CPU: 500, Memory: 256 * mi}, "500m 256Mi of 1 512Mi", ""},
		{"Guaranteed", container("web", list("500m", "256Mi"), list("500m", "256Mi")), container("web", list("500m", "256Mi"), list("500m", "256Mi")), LimitsStay, mpa.Resources{CPU: 100, Memory: 100 * mi}, "", otherQoS},
		{"it would be Guaranteed", container("web", list("500m", "512Mi"), list("1", "512Mi")), container("web", list("500m", "512Mi"), list("1", "512Mi")), LimitsStay, mpa.Resources{CPU: 1000, Memory: 512 * mi}, "", otherQoS},
	} {
		t.Run(c.name, func(t *testing.T) {
			template := &corev1.PodSpec{Containers: []corev1.Container{c.template}}
			for _, p := range []Plan{
				PlanPod(running(c.pod), template, map[string]mpa.Resources{"web": c.want}, c.limits),
				PlanResize(running(c.pod), template, map[string]mpa.Resources{"web": c.want}, c.limits),
			} {
				if c.left != "" {
					require.Equal(t, Plan{Left: []string{c.left}}, p)
					continue
				}
				require.Empty(t, p.Left)
				require.Equal(t, c.get, text(p.Containers["web"]))
			}
		})
	}
}

// The way back is exact: bounds do not count.
func TestTemplateConstraints(t *testing.T) {
	m := &v1alpha1.MultidimPodAutoscaler{}
	m.Spec.Constraints.Containers = []v1alpha1.ContainerConstraints{{
		Name: "web", Controlled: []corev1.ResourceName{"cpu"}, MinAllowed: v1alpha1.Amounts{CPU: resource.NewMilliQuantity(25, resource.DecimalSI)},
	}}
	asked := []v1alpha1.ContainerRequests{{Name: "web", CPU: resource.NewMilliQuantity(5, resource.DecimalSI)}}
	for algorithm, millis := range map[string]int64{"usage": 25, "template": 5} {
		m.Spec.Recommender.Algorithm = algorithm
		want, err := Wanted(asked, Constraints(m))
		require.NoError(t, err)
		require.Equal(t, map[string]mpa.Resources{"web": {CPU: millis}}, want)
	}
}

func TestPlanResize(t *testing.T) {
	const mi = 1 << 20
	half := container("web", list("500m", "256Mi"), list("1", "512Mi"))
	for _, c := range []struct {
		name     string
		pod      corev1.Container
		template *corev1.Container // nil = as the pod
		edit     func(*corev1.Pod)
		want     mpa.Resources
		get      string // "" = no change
		left     string
		restarts bool
	}{
		{name: "both", pod: half, want: mpa.Resources{CPU: 300, Memory: 300 * mi}, get: "300m 300Mi of 600m 600Mi"},
		{name: "cpu alone", pod: half, want: mpa.Resources{CPU: 300}, get: "300m 256Mi of 600m 512Mi"},
		{name: "as it is", pod: half, want: mpa.Resources{CPU: 500, Memory: 256 * mi}},
		{name: "no limits", pod: container("web", list("500m", "256Mi"), nil), want: mpa.Resources{CPU: 1500, Memory: 1}, get: "1500m 1 of 0 0"},
		// 334 × 1000/300 = 1113.3
		{name: "limits round down", pod: container("web", list("300m", "256Mi"), list("1", "256Mi")), want: mpa.Resources{CPU: 334}, get: "334m 256Mi of 1113m 256Mi"},
		{
			name: "the template's ratio, not one that was rounded", pod: container("web", list("1m", "256Mi"), list("4m", "512Mi")),
			template: new(container("web", list("300m", "256Mi"), list("1", "512Mi"))), want: mpa.Resources{CPU: 300}, get: "300m 256Mi of 1 512Mi",
		},
		{
			name: "a template's limit without a request", pod: half,
			template: new(container("web", nil, list("1", "512Mi"))), want: mpa.Resources{CPU: 700}, get: "700m 256Mi of 700m 512Mi",
		},
		{name: "no limit is added", pod: container("web", list("500m", "256Mi"), nil), template: &half, want: mpa.Resources{CPU: 300}, get: "300m 256Mi of 0 0"},
		{
			name: "Guaranteed stays so, whatever the template", pod: container("web", list("500m", "256Mi"), list("500m", "256Mi")),
			template: &half, want: mpa.Resources{CPU: 300, Memory: 100 * mi}, get: "300m 100Mi of 300m 100Mi",
		},
		{
			name: "Burstable stays so", pod: container("web", list("500m", "256Mi"), list("1", "256Mi")),
			template: new(container("web", list("1", "256Mi"), list("1", "256Mi"))), want: mpa.Resources{CPU: 300}, left: "its QoS class would change",
		},
		{name: "no requests", pod: container("web", nil, nil), want: mpa.Resources{CPU: 300, Memory: mi}, left: "container web has no cpu request"},
		{name: "one request", pod: container("web", list("", "256Mi"), nil), want: mpa.Resources{CPU: 300, Memory: mi}, get: "0 1Mi of 0 0", left: "container web has no cpu request"},
		{name: "no such container", pod: container("proxy", list("500m", ""), nil), want: mpa.Resources{CPU: 300}},
		{name: "static", pod: half, edit: func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }, want: mpa.Resources{CPU: 300}, left: "the pod is static"},
		{name: "Windows", pod: half, edit: func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Windows} }, want: mpa.Resources{CPU: 300}, left: "the pod runs on Windows"},
		{name: "an old node", pod: half, edit: func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Resources = nil }, want: mpa.Resources{CPU: 300}, left: "its node does not support resizes"},
		{name: "an old node, nothing to do", pod: half, edit: func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Resources = nil }, want: mpa.Resources{CPU: 500}},
		{
			name: "resources of the pod", pod: half, edit: func(p *corev1.Pod) { p.Spec.Resources = &corev1.ResourceRequirements{} },
			want: mpa.Resources{CPU: 300}, left: "the pod as a whole has resources",
		},
		{name: "a restart to grow", pod: restarting(half), want: mpa.Resources{CPU: 300, Memory: 300 * mi}, get: "300m 300Mi of 600m 600Mi", restarts: true},
		{name: "none for cpu", pod: restarting(half), want: mpa.Resources{CPU: 300, Memory: 256 * mi}, get: "300m 256Mi of 600m 512Mi"},
		{name: "none to shrink", pod: restarting(half), want: mpa.Resources{CPU: 300, Memory: 100 * mi}, get: "300m 256Mi of 600m 512Mi", left: "container web restarts to have less memory"},
		{name: "nothing but to shrink", pod: restarting(half), want: mpa.Resources{Memory: 100 * mi}, left: "container web restarts to have less memory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := running(c.pod)
			if c.edit != nil {
				c.edit(pod)
			}
			template := pod.Spec.DeepCopy()
			if c.template != nil {
				template.Containers = []corev1.Container{*c.template}
			}
			before := pod.DeepCopy()
			p := PlanResize(pod, template, map[string]mpa.Resources{"web": c.want}, LimitsFollow)
			require.Equal(t, before, pod, "the pod is read only")
			if c.left == "" {
				assert.Empty(t, p.Left)
			} else if assert.NotEmpty(t, p.Left) {
				assert.Equal(t, c.left, p.Left[0])
			}
			assert.Equal(t, c.restarts, p.Restarts)
			if c.get == "" {
				assert.Empty(t, p.Containers)
			} else {
				assert.Equal(t, c.get, text(p.Containers["web"]))
			}
		})
	}
}

// restarting is a container that restarts for memory.
func restarting(c corev1.Container) corev1.Container {
	c.ResizePolicy = []corev1.ContainerResizePolicy{
		{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.NotRequired},
		{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer},
	}
	return c
}

// For random pods: the class is the one that upstream computes, and stays; a plan that was
// carried out leaves nothing to plan; limits stay above requests.
func TestPlanKeepsClass(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	amount := func(unit int64) (request, limit *resource.Quantity) {
		a := unit * (1 + rng.Int64N(3))
		b := max(a, unit*(1+rng.Int64N(3)))
		switch rng.IntN(6) {
		case 0:
			return nil, nil
		case 1:
			return resource.NewMilliQuantity(a, resource.DecimalSI), nil
		case 2, 3:
			return resource.NewMilliQuantity(a, resource.DecimalSI), resource.NewMilliQuantity(b, resource.DecimalSI)
		default:
			return resource.NewMilliQuantity(a, resource.DecimalSI), resource.NewMilliQuantity(a, resource.DecimalSI)
		}
	}
	random := func() corev1.ResourceRequirements {
		r := corev1.ResourceRequirements{Requests: list("", ""), Limits: list("", "")}
		for name, unit := range map[corev1.ResourceName]int64{corev1.ResourceCPU: 7, corev1.ResourceMemory: 1000 << 20} {
			request, limit := amount(unit)
			if request != nil {
				r.Requests[name] = *request
			}
			if limit != nil {
				r.Limits[name] = *limit
			}
		}
		return r
	}
	classes, changes := map[corev1.PodQOSClass]int{}, 0
	for range 20_000 {
		pod := running()
		always := corev1.ContainerRestartPolicyAlways
		for i := range 1 + rng.IntN(2) {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprintf("c%d", i), Resources: random()})
		}
		if rng.IntN(3) == 0 {
			pod.Spec.InitContainers = []corev1.Container{{Name: "i0", Resources: random()}}
			if rng.IntN(2) == 0 {
				pod.Spec.InitContainers[0].RestartPolicy = &always
			}
		}
		template := pod.Spec.DeepCopy()
		if rng.IntN(3) == 0 {
			template.Containers[0].Resources = random()
		}
		want := map[string]mpa.Resources{}
		for _, name := range []string{"c0", "c1", "i0"} {
			if rng.IntN(2) == 0 {
				want[name] = mpa.Resources{CPU: rng.Int64N(30), Memory: rng.Int64N(5 << 20)}
			}
		}
		class := qos.ComputePodQOS(pod)
		classes[class]++
		require.Equal(t, class == corev1.PodQOSGuaranteed, guaranteed(&pod.Spec, nil), "%+v", pod.Spec)
		p := PlanResize(pod, template, want, LimitsFollow)
		for _, c := range target.Containers(&pod.Spec) {
			to, ok := p.Containers[c.Name]
			if !ok {
				continue
			}
			changes++
			require.Len(t, to.Requests, len(c.Resources.Requests))
			require.Len(t, to.Limits, len(c.Resources.Limits))
			for name, limit := range to.Limits {
				request := to.Requests[name]
				require.GreaterOrEqual(t, limit.Cmp(request), 0, name)
			}
			c.Resources = to
		}
		require.Equal(t, class, qos.ComputePodQOS(pod), "%+v → %+v", pod.Spec, p)
		require.Empty(t, PlanResize(pod, template, want, LimitsFollow).Containers, "%+v", pod.Spec)
	}
	require.Greater(t, changes, 1000)
	require.Greater(t, classes[corev1.PodQOSGuaranteed], 1000)
	require.Greater(t, classes[corev1.PodQOSBurstable], 1000)
}

func TestWanted(t *testing.T) {
	q := func(s string) *resource.Quantity { return new(resource.MustParse(s)) }
	main := v1alpha1.ContainerConstraints{
		Name: "main", Controlled: both,
		MinAllowed: v1alpha1.Amounts{CPU: q("100m"), Memory: q("64Mi")}, MaxAllowed: v1alpha1.UpperAmounts{CPU: q("2")},
	}
	cpuAlone := main
	cpuAlone.Controlled = both[:1]
	for _, c := range []struct {
		name        string
		cpu, memory *resource.Quantity
		of          v1alpha1.ContainerConstraints
		want        mpa.Resources
		err         string
	}{
		{name: "within", cpu: q("300m"), memory: q("1Gi"), of: main, want: mpa.Resources{CPU: 300, Memory: 1 << 30}},
		{name: "fractions round up", cpu: q("300100u"), memory: q("100000000100m"), of: main, want: mpa.Resources{CPU: 301, Memory: 100_000_001}},
		{name: "below", cpu: q("1m"), memory: q("1"), of: main, want: mpa.Resources{CPU: 100, Memory: 64 << 20}},
		{name: "above", cpu: q("20"), memory: q("1Ti"), of: main, want: mpa.Resources{CPU: 2000, Memory: 1 << 40}},
		{name: "not controlled", cpu: q("1"), memory: q("-1"), of: cpuAlone, want: mpa.Resources{CPU: 1000}},
		{name: "one alone", memory: q("1Gi"), of: main, want: mpa.Resources{Memory: 1 << 30}},
		{name: "nothing", of: main},
		{name: "zero", cpu: q("0"), of: main, err: "container main: cpu 0: want more than 0 and at most 100000000"},
		{name: "negative", memory: q("-1Gi"), of: main, err: "container main: memory -1Gi: want more than 0 and at most 1125899906842624"},
		{name: "beyond any machine", memory: q("9e30"), of: main, err: "container main: memory 9e30: want more than 0 and at most 1125899906842624"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Wanted([]v1alpha1.ContainerRequests{{Name: "other", CPU: q("5")}, {Name: "main", CPU: c.cpu, Memory: c.memory}}, []v1alpha1.ContainerConstraints{c.of})
			if c.err != "" {
				require.EqualError(t, err, c.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, got["main"])
			assert.NotContains(t, got, "other")
		})
	}
}

func TestScaled(t *testing.T) {
	for _, c := range []struct{ amount, limit, request, want int64 }{
		{100, 2, 1, 200},
		{100, 1, 1, 100},
		{100, 1, 2, 100}, // a limit below its request counts as none
		{1, 4, 3, 1},
		{2, 4, 3, 2},
		{1 << 50, 1 << 50, 1 << 49, 1 << 51},
		{1 << 50, 1 << 50, 1, 1<<63 - 1},
	} {
		assert.Equal(t, c.want, scaled(c.amount, c.limit, c.request), c)
	}
}

func TestDigest(t *testing.T) {
	of := []v1alpha1.ContainerRequests{{Name: "web"}}
	a := running(container("web", list("500m", "256Mi"), list("1", "512Mi")), container("proxy", list("100m", ""), nil)).Spec
	for _, c := range []struct {
		name string
		edit func(*corev1.PodSpec)
		same bool
	}{
		{"another image", func(s *corev1.PodSpec) { s.Containers[0].Image = "web:2" }, true},
		{"another container's request", func(s *corev1.PodSpec) { s.Containers[1].Resources.Requests = list("200m", "") }, true},
		{"another limit", func(s *corev1.PodSpec) { s.Containers[0].Resources.Limits = list("2", "512Mi") }, false},
		{"the same in other words", func(s *corev1.PodSpec) { s.Containers[0].Resources.Requests = list("0.5", "268435456") }, true},
		{"another request", func(s *corev1.PodSpec) { s.Containers[0].Resources.Requests = list("501m", "256Mi") }, false},
		{"one less", func(s *corev1.PodSpec) { s.Containers[0].Resources.Requests = list("500m", "") }, false},
		{"gone", func(s *corev1.PodSpec) { s.Containers = s.Containers[1:] }, false},
	} {
		b := a.DeepCopy()
		c.edit(b)
		assert.Equal(t, c.same, Digest(&a, of) == Digest(b, of), c.name)
	}
}

func TestStateOf(t *testing.T) {
	pod := running(container("web", list("500m", "256Mi"), nil))
	is := func(want State) {
		t.Helper()
		got, _ := StateOf(pod)
		assert.Equal(t, want, got)
	}
	is(Resized)
	pod.Spec.Containers[0].Resources.Requests = list("600m", "256Mi") // not yet known to the node
	is(InProgress)
	for _, c := range []struct {
		kind   corev1.PodConditionType
		reason string
		want   State
	}{
		{corev1.PodResizePending, corev1.PodReasonDeferred, Deferred},
		{corev1.PodResizePending, corev1.PodReasonInfeasible, Infeasible},
		{corev1.PodResizeInProgress, "", InProgress},
		{corev1.PodResizeInProgress, corev1.PodReasonError, InProgress},
	} {
		pod.Status.Conditions = []corev1.PodCondition{{Type: c.kind, Status: corev1.ConditionTrue, Reason: c.reason}}
		is(c.want)
	}
	pod.Status.ContainerStatuses[0].Resources.Requests = list("600m", "256Mi")
	is(InProgress) // a condition says so
	pod.Status.Conditions = nil
	is(Resized)
}
