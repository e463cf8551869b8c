//go:build e2e

package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// troubleLimit is 10 minutes of production: the programs decide every second instead of every 15 s.
const troubleLimit = 10 * time.Minute / 15

// troubles is a fleet with pods whose resizes are refused and pods that need more memory.
type troubles struct {
	*fleet
	refused *sync.Map // by UID: the kubelet's reason
	needs   *sync.Map // by UID: bytes, without which the container ends again
}

// in returns the same for a subtest. No member is added later.
func (f *troubles) in(t *testing.T) *troubles {
	return &troubles{&fleet{T: t, c: f.c, ns: f.ns, members: f.members}, f.refused, f.needs}
}

// Workloads of one cluster, each with another trouble of a pod, are out of it within troubleLimit,
// and healthy pods keep running and lose nothing of their size.
func TestMPATroubles(t *testing.T) {
	f := &troubles{startFleet(t), &sync.Map{}, &sync.Map{}}
	f.c.Kubelet.RefuseResize(func(p *v1.Pod) string {
		reason, ok := f.refused.Load(p.UID)
		if !ok {
			return ""
		}
		return reason.(string)
	})
	// A container that has run out of memory starts again with more: until then, CrashLoopBackOff.
	f.c.Kubelet.Hold(func(p *v1.Pod) bool {
		need, ill := f.needs.Load(p.UID)
		return ill && memoryOf(p) < need.(int64)
	})
	class := f.ns + "-batch"
	f.c.Kubectl(t, "", "create", "priorityclass", class, "--value=1")
	t.Cleanup(func() { f.c.Kubectl(t, "", "delete", "priorityclass", class) })

	grows := memberSpec{
		replicas: 2, max: 8, rate: 60, mode: v1alpha1.ModeInPlace, algorithm: "hpa+vpa",
		usage: v1alpha1.UsagePrometheus, prometheus: "main", memory: "128Mi", maxMemory: "192Mi",
	}
	four := grows
	four.replicas, four.max, four.rate = 4, 4, 150
	fourMoved, quota := four, grows
	fourMoved.mode = v1alpha1.ModeInPlaceOrRecreate
	quota.edit = func(d *appsv1.Deployment) { d.Spec.Template.Spec.PriorityClassName = class }
	restarts := grows
	restarts.replicas, restarts.max, restarts.rate, restarts.memory, restarts.maxMemory = 3, 3, 100, "300Mi", "2Gi"
	restarts.edit = limited(v1.RestartContainer)
	recreates, many := restarts, restarts
	recreates.mode, recreates.edit = v1alpha1.ModeRecreate, limited(v1.NotRequired)
	many.replicas, many.max, many.rate, many.edit = 20, 20, 800, limited(v1.NotRequired)

	specs := map[string]memberSpec{
		"deferred": grows, "infeasible": four, "moved": fourMoved, "restarts": restarts, "recreates": recreates, "many": many, "quota": quota,
	}
	var targets []string
	pods := 0
	for name, s := range specs {
		targets = append(targets, f.add(name, s).load.Target)
		pods += int(s.replicas)
	}
	f.c.WaitRunning(t, f.ns, pods)
	f.startAll("--patience=5m", e2e.PrometheusServers(t, map[string]string{"main": e2e.StartPrometheus(t, targets...).URL}))
	for _, name := range []string{"restarts", "recreates", "many"} {
		f.autoscale(name, specs[name])
	}
	f.await("their decisions", []*member{f.member("restarts"), f.member("recreates"), f.member("many")}, func(_ *member, s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		return s.Decision != nil && s.Phase == v1alpha1.PhaseHolding
	})

	t.Run("deferred resize and more load", func(t *testing.T) { f.in(t).growsPastResize(grows) })
	t.Run("one infeasible resize", func(t *testing.T) { f.in(t).leavesOthers(four, fourMoved) })
	t.Run("out of memory, a resize restarts", func(t *testing.T) { f.in(t).mendsByRestart() })
	t.Run("out of memory, a resize recreates", func(t *testing.T) { f.in(t).recreatesIllFirst() })
	t.Run("one of twenty out of memory", func(t *testing.T) { f.in(t).mendsOneOfMany() })
	t.Run("quotas with scopes", func(t *testing.T) { f.in(t).heedsQuota(quota, class) })
}

// limited makes the memory limit equal the request, with that resizePolicy.
func limited(policy v1.ResourceResizeRestartPolicy) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		main := &d.Spec.Template.Spec.Containers[0]
		main.Resources.Limits = v1.ResourceList{v1.ResourceMemory: main.Resources.Requests[v1.ResourceMemory]}
		main.ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: policy}}
	}
}

// growsPastResize has a pod whose resize waits for room on its node while the load rises.
func (f *troubles) growsPastResize(s memberSpec) {
	m := f.member("deferred")
	odd := f.pods(m)[0].UID
	f.refused.Store(odd, v1.PodReasonDeferred)
	f.autoscale(m.name, s)
	f.soon(m, "one deferred, one resized", func(pods []*v1.Pod) bool {
		return f.pending(m, odd) == v1.PodReasonDeferred && has(pods, "192Mi") == 1
	})
	m.set(250)
	f.soon(m, "six replicas or more", func(pods []*v1.Pod) bool { return readyPods(pods) >= 6 })
	require.Equal(f, v1.PodReasonDeferred, f.pending(m, odd))
	require.Equal(f, len(f.pods(m))-1, has(f.pods(m), "192Mi"))
	f.requireGrew(m, "128Mi", "192Mi")
}

// leavesOthers has a pod of four whose node can never give it more, in a mode that leaves it there
// and in one that moves it.
func (f *troubles) leavesOthers(stays, moves memberSpec) {
	m, moved := f.member("infeasible"), f.member("moved")
	odd, gone, before := f.pods(m)[0], f.pods(moved)[0], uids(f.pods(m))
	others := uids(f.pods(moved)[1:])
	f.refused.Store(odd.UID, v1.PodReasonInfeasible)
	f.refused.Store(gone.UID, v1.PodReasonInfeasible)
	f.autoscale(m.name, stays)
	f.autoscale(moved.name, moves)
	f.soon(m, "three resized and a reason for the fourth", func(pods []*v1.Pod) bool {
		resize := meta.FindStatusCondition(f.statuses()[m.name].Conditions, v1alpha1.ConditionResize)
		return has(pods, "192Mi") == 3 && resize != nil && resize.Reason == v1.PodReasonInfeasible && strings.Contains(resize.Message, odd.Name)
	})
	f.soon(moved, "four resized", func(pods []*v1.Pod) bool {
		for uid := range others {
			require.Contains(f, uids(pods), uid)
		}
		return has(pods, "192Mi") == 4 && readyPods(pods) == 4
	})
	<-time.NewTimer(12 * time.Second).C // three cool-downs
	require.Equal(f, before, uids(f.pods(m)))
	require.Equal(f, 3, has(f.pods(m), "192Mi"))
	require.Equal(f, 4, has(f.pods(moved), "192Mi"))
	f.requireGrew(m, "128Mi", "192Mi")
	f.requireGrew(moved, "128Mi", "192Mi")
}

// mendsByRestart has two of three pods run out of memory, where a resize restarts the container.
func (f *troubles) mendsByRestart() {
	m := f.member("restarts")
	before, well := uids(f.pods(m)), f.pods(m)[0].UID
	f.runOut(f.pods(m)[1:]...)
	f.soon(m, "more memory", func(pods []*v1.Pod) bool {
		for _, p := range pods {
			// The one that is well waits until the others are.
			require.True(f, p.UID != well || ready(p) || readyPods(pods) == 2, "%d ready", readyPods(pods))
		}
		return has(pods, "400Mi") == 3 && readyPods(pods) == 3
	})
	require.Equal(f, before, uids(f.pods(m)))
	for _, p := range f.pods(m) {
		if p.UID == well {
			require.EqualValues(f, 1, p.Status.ContainerStatuses[0].RestartCount)
		}
	}
	f.requireGrew(m, "300Mi", "")
}

// recreatesIllFirst has the last pod by name run out of memory, in mode Recreate.
func (f *troubles) recreatesIllFirst() {
	m := f.member("recreates")
	before := f.pods(m)
	ill := before[2]
	f.runOut(ill)
	f.soon(m, "the last replaced", func(pods []*v1.Pod) bool {
		if uids(pods)[ill.UID] {
			require.Subset(f, uids(pods), uids(before), "another was evicted first")
		}
		return !uids(pods)[ill.UID] && readyPods(pods) == 3
	})
	f.soon(m, "all replaced", func(pods []*v1.Pod) bool {
		require.GreaterOrEqual(f, readyPods(pods), 2)
		return has(pods, "400Mi") == 3 && readyPods(pods) == 3
	})
}

// mendsOneOfMany has one of twenty pods run out of memory: the size rises for all, in place.
func (f *troubles) mendsOneOfMany() {
	m := f.member("many")
	before, ill := uids(f.pods(m)), f.pods(m)[7]
	f.runOut(ill)
	f.soon(m, "more memory", func(pods []*v1.Pod) bool {
		require.GreaterOrEqual(f, readyPods(pods), 19)
		return has(pods, "400Mi") == 20 && readyPods(pods) == 20
	})
	recommended := f.statuses()[m.name].Recommendation.Containers[0].Memory
	require.GreaterOrEqual(f, recommended.Value(), int64(400<<20))
	require.Equal(f, before, uids(f.pods(m)))
	for _, p := range f.pods(m) {
		require.True(f, p.UID == ill.UID || p.Status.ContainerStatuses[0].RestartCount == 0, p.Name)
	}
	f.requireGrew(m, "300Mi", "")
}

// heedsQuota has a full quota of Jobs, which stops nothing, then one of the pods' PriorityClass
// that has room for one more pod of the template's size.
func (f *troubles) heedsQuota(s memberSpec, class string) {
	m := f.member("quota")
	f.quota("jobs", "scopes: [Terminating]", "0", "0")
	f.autoscale(m.name, s)
	f.soon(m, "both resized", func(pods []*v1.Pod) bool { return has(pods, "192Mi") == 2 })
	m.set(110)
	f.soon(m, "a third of that size", func(pods []*v1.Pod) bool { return has(pods, "192Mi") == 3 && readyPods(pods) == 3 })
	m.mu.Lock()
	for uid, list := range m.sizes {
		require.Equal(f, "500m 192Mi", list[len(list)-1].value, uid)
	}
	born := 0
	for _, list := range m.sizes {
		if len(list) == 1 {
			born++
		}
	}
	m.mu.Unlock()
	require.Equal(f, 1, born, "with that size, not resized later")

	f.quota("batch", "scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: ["+class+"]}]}", "704Mi", "576Mi")
	before := uids(f.pods(m))
	m.set(150)
	f.soon(m, "a fourth of the template's size", func(pods []*v1.Pod) bool {
		return has(pods, "192Mi") == 3 && has(pods, "128Mi") == 4 && readyPods(pods) == 4
	})
	f.soon(m, "the reason", func([]*v1.Pod) bool {
		return strings.Contains(statusOf(f.T, f.c, f.ns, m.name), "exceeded quota: batch")
	})
	require.Subset(f, uids(f.pods(m)), before)
	f.requireGrew(m, "128Mi", "192Mi")
}

// quota creates a quota of memory and waits until its usage is counted.
func (f *troubles) quota(name, scope, hard, used string) {
	f.Helper()
	f.c.Kubectl(f, fmt.Sprintf(`
apiVersion: v1
kind: ResourceQuota
metadata: {name: %s, namespace: %s}
spec: {hard: {requests.memory: %s}, %s}
`, name, f.ns, hard, scope), "apply", "-f", "-")
	e2e.Wait(f, "the quota's count", func() (string, bool) {
		q, err := f.c.Client.CoreV1().ResourceQuotas(f.ns).Get(f.Context(), name, metav1.GetOptions{})
		require.NoError(f, err)
		is, ok := q.Status.Used[v1.ResourceRequestsMemory]
		return is.String(), ok && is.String() == used
	})
}

// runOut has pods run out of memory as long as they have less than 400 MiB.
func (f *troubles) runOut(pods ...*v1.Pod) {
	for _, p := range pods {
		f.needs.Store(p.UID, int64(400<<20))
		f.c.Kubelet.OOMKill(p)
	}
	for _, p := range pods {
		e2e.Wait(f, "the kill of "+p.Name, func() (string, bool) {
			is := slices.ContainsFunc(f.c.Pods(f.ns), func(o *v1.Pod) bool { return o.UID == p.UID && ready(o) })
			return "", !is
		})
	}
}

// soon waits until is holds for a member's pods, for troubleLimit at most.
func (f *troubles) soon(m *member, what string, is func([]*v1.Pod) bool) {
	f.Helper()
	begin := time.Now()
	e2e.Wait(f, m.name+": "+what, func() (string, bool) {
		pods := f.pods(m)
		done := is(pods)
		if !done && time.Since(begin) > troubleLimit {
			state := ""
			for _, p := range pods {
				state += fmt.Sprintf("\n%s ready %v, asks for %v MiB, has %v MiB", p.Name, ready(p), p.Spec.Containers[0].Resources.Requests.Memory().Value()>>20, memoryOf(p)>>20)
			}
			f.Fatalf("%s: %s: not within %v: %v %s%s", m.name, what, troubleLimit, m.counts(), brief(f.statuses()[m.name]), state)
		}
		return "", done
	})
	f.Logf("%s: %s after %.1f s", m.name, what, time.Since(begin).Seconds())
}

// pending is the reason why a pod's resize is not granted.
func (f *troubles) pending(m *member, uid types.UID) string {
	for _, p := range f.pods(m) {
		if p.UID == uid {
			return e2e.Condition(p, v1.PodResizePending).Reason
		}
	}
	return ""
}

// requireGrew checks that no pod of a member ever asked for less memory than first, the template's,
// or than before, and for nothing but first and last; last "" allows any amount.
func (f *troubles) requireGrew(m *member, first, last string) {
	f.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid, list := range m.sizes {
		before := resource.MustParse(first)
		for _, size := range list {
			_, memory, _ := strings.Cut(size.value, " ")
			is := resource.MustParse(memory)
			require.GreaterOrEqual(f, is.Cmp(before), 0, "pod %s of %s: %v", uid, m.name, list)
			require.True(f, last == "" || memory == first || memory == last, "pod %s of %s: %v", uid, m.name, list)
			before = is
		}
	}
}

func ready(p *v1.Pod) bool { return e2e.Condition(p, v1.PodReady).Status == v1.ConditionTrue }

func readyPods(pods []*v1.Pod) (n int) {
	for _, p := range pods {
		if ready(p) {
			n++
		}
	}
	return n
}

// memoryOf is what a pod's container has, in bytes.
func memoryOf(p *v1.Pod) int64 {
	if s := p.Status.ContainerStatuses; len(s) > 0 && s[0].Resources != nil {
		return s[0].Resources.Requests.Memory().Value()
	}
	return 0
}

// has counts the pods that have so much memory or more.
func has(pods []*v1.Pod, memory string) (n int) {
	least := resource.MustParse(memory)
	for _, p := range pods {
		if memoryOf(p) >= least.Value() {
			n++
		}
	}
	return n
}
