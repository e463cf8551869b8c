package drain

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/internal/usage"
	"github.com/sigma-scheduler/sigma/internal/usage/prometheus"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// someLeaves has nodes of 4 cores with pods of some uses in cores, of a workload each with ten pods, at noon.
func someLeaves(uses ...[]float64) *leaves {
	var pods []*v1.Pod
	var nodes []*v1.Node
	window := prometheus.Latest{}
	for i, on := range uses {
		nodes = append(nodes, node(i, "a"))
		for k, cores := range on {
			p := pod(fmt.Sprintf("w%d%d", i, k), 0, i, "500m")
			pods = append(pods, p)
			window[prometheus.Pod{Namespace: p.Namespace, Name: p.Name}] = map[string]usage.Amounts{"c": {CPU: cores, Memory: 1}}
		}
	}
	slices.Reverse(pods)
	l := newLeaves(pods, nodes, nil, "", noon)
	l.measure([2]prometheus.Latest{window, window}, 1)
	for _, p := range pods {
		l.groups[podspec.Group(p, "")] = 10
	}
	l.stays = func(*v1.Pod) string { return "" }
	l.prefer = func(_ *v1.Pod, nodes []string) []string { return nodes }
	l.refusal = func(*v1.Pod, string) string { return "" }
	return l
}

// moved are the moves in short.
func (l *leaves) moved() (list []string) {
	for _, m := range l.moves {
		name, _, _ := strings.Cut(strings.TrimPrefix(m.Pod, "shop/"), "-")
		list = append(list, name+" "+m.From+" "+m.To)
	}
	return list
}

func TestRelief(t *testing.T) {
	ago := func(d time.Duration, from, to string) v1alpha1.RebalanceMove {
		return v1alpha1.RebalanceMove{Time: metav1.NewMicroTime(noon.Add(-d)), Pod: "shop/x", Workload: "shop/x", From: from, To: to}
	}
	for _, tt := range []struct {
		name   string
		uses   [][]float64
		change func(l *leaves)
		want   []string
		note   string
	}{
		{"the smallest that suffices", [][]float64{{2, .4, .6, 1.5}, {.1}}, nil, []string{"w02 n00 n01"}, ""}, // .5 above
		{"none suffices: the largest", [][]float64{{1, 1, 1, 1, 1, 1}, {1}}, nil, []string{"w00 n00 n01"}, ""},
		{"of two alike the first", [][]float64{{2.2, 2.2}, {}}, nil, []string{"w00 n00 n01"}, ""},
		{"the largest has no place", [][]float64{{3, 2}, {1.5}}, nil, []string{"w01 n00 n01"}, ""},
		{"not above", [][]float64{{3, 1}, {}}, nil, nil, ""},
		{"the target stays below 95 %", [][]float64{{2.3, 2.3}, {1.6}}, nil, nil, "no node has room"},
		{"all nodes are above", [][]float64{{3, 2}, {3, 2}, {4, 1}}, nil, nil, "no node has room"},
		{"the worst first, one to a node", [][]float64{{2, 2.1}, {3, 2}, {.2}}, nil, []string{"w11 n01 n02"}, "no node has room"},
		{"its only pod", [][]float64{{4.5}, {}}, nil, nil, "it has no other pod"},
		{"above now alone", [][]float64{{3, 2}, {}}, func(l *leaves) { l.earlier["n00"]["cpu"] = 3900 }, nil, ""},
		{"above before alone", [][]float64{{3, .5}, {}}, func(l *leaves) { l.earlier["n00"]["cpu"] = 4100 }, nil, ""},
		{"it gave one", [][]float64{{3, 2}, {}}, func(l *leaves) { l.today = append(l.today, ago(9*time.Minute, "n00", "n05")) }, nil, "less than 10 minutes ago"},
		{"long ago", [][]float64{{3, 2}, {}}, func(l *leaves) { l.today = append(l.today, ago(10*time.Minute, "n00", "n05")) }, []string{"w01 n00 n01"}, ""},
		{"the target took one", [][]float64{{3, 2}, {}}, func(l *leaves) { l.today = append(l.today, ago(time.Minute, "n05", "n01")) }, nil, "no node has room"},
		{"a quarter moved", [][]float64{{3, 2}, {}}, func(l *leaves) {
			for range 2 {
				m := ago(time.Hour, "n07", "n08")
				m.Workload = "shop/Deployment/w01"
				l.today = append(l.today, m)
			}
		}, []string{"w00 n00 n01"}, ""},
		{"some must stay", [][]float64{{3, 2}, {}}, func(l *leaves) {
			l.stays = func(p *v1.Pod) string { return map[string]string{"w01": "it holds data"}[p.Name[:3]] }
		}, []string{"w00 n00 n01"}, ""},
		{"all must stay", [][]float64{{3, 2}, {}}, func(l *leaves) { l.stays = func(*v1.Pod) string { return "it holds data" } }, nil, "w01-7d4-00: it holds data"},
		{"the policy chooses", [][]float64{{3, 2}, {}, {}}, func(l *leaves) {
			l.prefer = func(_ *v1.Pod, nodes []string) []string { slices.Reverse(nodes); return nodes }
		}, []string{"w01 n00 n02"}, ""},
		{"a filter refuses", [][]float64{{3, 2}, {}, {}}, func(l *leaves) {
			l.refusal = func(_ *v1.Pod, to string) string { return map[string]string{"n01": "no"}[to] }
		}, []string{"w01 n00 n02"}, ""},
		{"no room by requests", [][]float64{{3, 2}, {}}, func(l *leaves) { l.room["n01"]["cpu"] = 499 }, nil, "no node has room"},
		{"it failed", [][]float64{{3, 2}, {}}, func(l *leaves) { l.paused = func(n string) bool { return n == "n00" } }, nil, "failed less than 10 minutes ago"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := someLeaves(tt.uses...)
			if tt.change != nil {
				tt.change(l)
			}
			l.search(10)
			require.Equal(t, tt.want, l.moved(), l.notes)
			require.Contains(t, strings.Join(l.notes, "\n"), tt.note)
		})
	}
	full := someLeaves([]float64{2, 1.9}, []float64{})
	require.Zero(t, full.search(10))
	for _, name := range []string{"n00", "n01"} {
		full.capacity[name] = amounts{"cpu": 3800, "memory": 1 << 34}
	}
	require.Equal(t, 1, full.search(10))
	require.Equal(t, []string{"w01 n00 n01"}, full.moved())
	l := someLeaves([]float64{3, 2}, []float64{})
	require.Equal(t, 1, l.search(0))
	require.Empty(t, l.moves)
	require.Equal(t, "On 1 of 2 nodes pods use more than the node has. Moves: 0. Node n00 has 1.25 of its cpu and keeps its pods: no more moves are allowed now.", l.text(v1alpha1.RebalanceRelief, 1))
}

// Batch pods fill up nodes, and leave by themselves: for them no other pod moves, and a node takes pods beside them.
func TestReliefWithoutBatchPods(t *testing.T) {
	for name, tt := range map[string]struct {
		online, batch [2]float64 // cores
		want          []string
	}{
		"a full node":  {[2]float64{1, 0}, [2]float64{2.95, 0}, nil},
		"a taker":      {[2]float64{5, 0}, [2]float64{0, 3.9}, []string{"w00 n00 n01"}},
		"their memory": {[2]float64{.1, 0}, [2]float64{.1, 0}, nil},
	} {
		var pods []*v1.Pod
		window := prometheus.Latest{}
		nodes := []*v1.Node{node(0, "a"), node(1, "a")}
		use := func(p *v1.Pod, cores, memory float64) {
			pods = append(pods, p)
			window[prometheus.Pod{Namespace: p.Namespace, Name: p.Name}] = map[string]usage.Amounts{"c": {CPU: cores, Memory: memory}}
		}
		for i := range nodes {
			nodes[i].Status.Allocatable["cpu"] = apiresource.MustParse("3900m")
			for k := range 2 {
				use(pod(fmt.Sprintf("w%d%d", i, k), 0, i, "500m"), tt.online[i]/2, 1<<30)
			}
			b := pod(fmt.Sprintf("b%d", i), 0, i, "1")
			b.Spec.Containers[0].Resources.Requests = v1.ResourceList{podspec.BatchCPU: apiresource.MustParse("1000")}
			use(b, tt.batch[i], map[string]float64{"their memory": 15 << 30}[name]*float64(1-i))
		}
		l := newLeaves(pods, nodes, nil, "", noon)
		l.measure([2]prometheus.Latest{window, window}, 1)
		l.stays = func(*v1.Pod) string { return "" }
		l.prefer = func(_ *v1.Pod, nodes []string) []string { return nodes }
		l.refusal = func(*v1.Pod, string) string { return "" }
		l.search(10)
		require.Equal(t, tt.want, l.moved(), name)
	}
}

// A node with a pod whose use is not known neither takes a pod nor gives one.
func TestUnknownUse(t *testing.T) {
	for lacks, want := range map[int][]string{0: nil, 1: {"w01 n00 n02"}, 2: {"w01 n00 n01"}} {
		var pods []*v1.Pod
		window := prometheus.Latest{}
		for i, cores := range []float64{3, 2, .1, .1} {
			p := pod(fmt.Sprintf("w0%d", i), 0, max(0, i-1), "500m")
			p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}
			if pods = append(pods, p); max(0, i-1) != lacks || i == 0 {
				window[prometheus.Pod{Namespace: p.Namespace, Name: p.Name}] = map[string]usage.Amounts{"c": {CPU: cores, Memory: 1}}
			}
		}
		l := newLeaves(pods, []*v1.Node{node(0, "a"), node(1, "a"), node(2, "a")}, nil, "", noon)
		l.measure([2]prometheus.Latest{window, window}, 1)
		l.stays = func(*v1.Pod) string { return "" }
		l.prefer = func(_ *v1.Pod, nodes []string) []string { return nodes }
		l.refusal = func(*v1.Pod, string) string { return "" }
		l.search(10)
		require.Equal(t, want, l.moved())
		require.Contains(t, l.notes[0], fmt.Sprintf("the use of node n0%d is not known: container c of shop/w0", lacks))
	}
}

// Nothing is concluded from a sample that is missing or cannot be.
func TestUseOf(t *testing.T) {
	four := amounts{"cpu": 4000, "memory": 1 << 30}
	p := pod("web", 1, 0, "500m")
	p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "log"})
	runs := func(since time.Duration) {
		p.Status.ContainerStatuses = nil
		for _, k := range p.Spec.Containers {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, v1.ContainerStatus{Name: k.Name, State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(noon.Add(-since))}}})
		}
	}
	samples := func(of map[string]usage.Amounts) prometheus.Latest {
		return prometheus.Latest{{Namespace: "shop", Name: p.Name}: of}
	}
	whole := samples(map[string]usage.Amounts{"c": {CPU: .1, Memory: 5}, "log": {CPU: .2, Memory: 6}, "gone": {CPU: 9}})
	runs(time.Hour)
	u, lacks := useOf(p, whole, four, noon)
	require.Empty(t, lacks)
	require.InDelta(t, 300, u["cpu"], 1e-9)
	require.InDelta(t, 11, u["memory"], 0)
	part := samples(map[string]usage.Amounts{"c": {CPU: .1, Memory: 5}})
	_, lacks = useOf(p, part, four, noon)
	require.Equal(t, "container log of shop/web-7d4-01 has no sample", lacks)
	runs(14 * time.Minute)
	u, lacks = useOf(p, part, four, noon)
	require.Empty(t, lacks)
	require.InDelta(t, 500, u["cpu"], 0, "the request, as long as it is young")
	_, lacks = useOf(p, samples(map[string]usage.Amounts{"c": {CPU: 5.1}}), four, noon)
	require.Contains(t, lacks, "cannot have used 5.1 cores")
}

func TestFit(t *testing.T) {
	world := func(change func(pods []*v1.Pod)) *leaves {
		var pods []*v1.Pod
		for i := range 3 {
			for k := range 3 {
				pods = append(pods, pod(fmt.Sprintf("w%d%d", i, k), 0, i, []string{"1", "500m", "700m"}[k]))
			}
		}
		change(pods)
		l := newLeaves(pods, []*v1.Node{node(0, "a"), node(1, "a"), node(2, "a")}, nil, "", noon)
		l.request()
		l.stays = func(*v1.Pod) string { return "" }
		l.prefer = func(_ *v1.Pod, nodes []string) []string { return nodes }
		l.refusal = func(*v1.Pod, string) string { return "" }
		return l
	}
	desire := func(p *v1.Pod, cpu string) { // a resize that the kubelet defers
		p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c", AllocatedResources: p.Spec.Containers[0].Resources.Requests, Resources: &v1.ResourceRequirements{Requests: p.Spec.Containers[0].Resources.Requests}}}
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{"cpu": apiresource.MustParse(cpu)}
		p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: v1.PodReasonDeferred, LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour))})
	}
	l := world(func([]*v1.Pod) {})
	require.Zero(t, l.search(10))
	l = world(func(pods []*v1.Pod) { desire(pods[0], "3400m") }) // 4.6 in all
	require.Equal(t, 1, l.search(10))
	require.Equal(t, []string{"w02 n00 n01"}, l.moved(), "700m are the smallest that suffice")
	l = world(func(pods []*v1.Pod) { desire(pods[0], "3800m") }) // 5.0: two leave
	l.search(10)
	require.Equal(t, []string{"w02 n00 n01", "w01 n00 n01"}, l.moved())
	l = world(func(pods []*v1.Pod) { desire(pods[0], "3800m") })
	l.search(1)
	require.Equal(t, []string{"w02 n00 n01"}, l.moved(), "the limit")
	require.Contains(t, l.notes[0], "no more moves are allowed now")
	l = world(func(pods []*v1.Pod) { desire(pods[0], "1100m") }) // it fits, but the kubelet refuses it
	require.Equal(t, 1, l.search(10))
	require.Equal(t, []string{"w00 n00 n01"}, l.moved())
	l = world(func(pods []*v1.Pod) {
		desire(pods[0], "1100m")
		pods[0].Status.Conditions[1].LastTransitionTime = metav1.NewTime(noon.Add(-time.Minute))
	})
	require.Zero(t, l.search(10), "it may fit in a moment")
	infeasible := func(pods []*v1.Pod) { // more than the node has: no other pod makes room for it
		desire(pods[0], "5")
		pods[0].Status.Conditions[1].Reason = v1.PodReasonInfeasible
	}
	l = world(infeasible)
	require.Equal(t, 1, l.search(10))
	require.Empty(t, l.moves)
	require.Contains(t, l.notes[0], "the resize of shop/w00-7d4-00 waits on node n00: no node has room")
	l = world(infeasible)
	l.capacity["n02"]["cpu"], l.room["n02"]["cpu"] = 8000, 8000
	l.search(10)
	require.Equal(t, []string{"w00 n00 n02"}, l.moved())
	l = world(func(pods []*v1.Pod) {
		for _, p := range pods {
			desire(p, "1400m")
		}
	})
	require.Equal(t, 3, l.search(10))
	require.Empty(t, l.moves, "all nodes are overfull")
}

func TestToday(t *testing.T) {
	at := func(h, m int) v1alpha1.RebalanceMove {
		return v1alpha1.RebalanceMove{Pod: fmt.Sprint(h, ":", m), Time: metav1.NewMicroTime(noon.Truncate(day).Add(time.Duration(h)*time.Hour + time.Duration(m)*time.Minute))}
	}
	list := []v1alpha1.RebalanceMove{at(-2, 0), at(-1, 55), at(0, 0), at(11, 0), at(30, 0)}
	require.Equal(t, list[2:], today(list, noon), "also one by a clock that was set back")
	require.Equal(t, list[1:], today(list, noon.Truncate(day).Add(time.Minute)), "a node rests over midnight too")
	require.Empty(t, today(nil, noon))
}

// Plans of a day begin five minutes after midnight, or at once for a new object.
func TestFitIsDueAtMidnight(t *testing.T) {
	spec := defaults()
	spec.Goal, spec.Every = v1alpha1.RebalanceFit, ""
	s, err := parseSpec(spec)
	require.NoError(t, err)
	midnight := noon.Truncate(day)
	due := func(last, now time.Time) bool {
		t := metav1.NewMicroTime(last)
		return s.due(&v1alpha1.RebalanceStatus{LastTime: &t, Plan: &v1alpha1.RebalancePlan{Time: t}}, 0, 0, now)
	}
	require.True(t, s.due(&v1alpha1.RebalanceStatus{}, 0, 0, noon))
	require.False(t, due(noon.Add(-time.Hour), noon))
	require.True(t, due(midnight.Add(-time.Hour), noon))
	require.False(t, due(midnight.Add(-time.Hour), midnight.Add(4*time.Minute)))
	require.True(t, due(midnight.Add(-time.Hour), midnight.Add(5*time.Minute)))
	require.False(t, due(midnight.Add(5*time.Minute), midnight.Add(23*time.Hour)))
	spec.Every = "2h"
	s, err = parseSpec(spec)
	require.NoError(t, err)
	require.True(t, due(noon.Add(-2*time.Hour), noon))
	spec.Goal = "Faster"
	_, err = parseSpec(spec)
	require.EqualError(t, err, `spec.goal: "Faster": want EmptyNodes, Relief or Fit`)
}
