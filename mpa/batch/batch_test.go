package batch

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
	metricsfake "k8s.io/metrics/pkg/client/clientset/versioned/fake"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/sigma-scheduler/sigma/internal/usage"
	"github.com/sigma-scheduler/sigma/internal/usage/prometheus/prometheustest"
)

// A site is a node of 10 cores and 64 GiB with online pods and a batch pod.
type site struct {
	*controller
	clock   *testingclock.FakePassiveClock
	metrics []v1beta1.PodMetrics
	away    error
}

func podOn(name, cpu string, change func(p *v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", Controller: new(true)}}},
		Spec: v1.PodSpec{NodeName: "a", Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("4Gi")},
		}}}},
	}
	if change != nil {
		change(p)
	}
	return p
}

func newSite(t *testing.T, mode string, objects ...client.Object) *site {
	t.Helper()
	room := v1.ResourceList{"cpu": resource.MustParse("10"), "memory": resource.MustParse("64Gi")}
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: v1.NodeStatus{Capacity: room, Allocatable: room.DeepCopy()}}
	s := &site{clock: testingclock.NewFakePassiveClock(begin)}
	api := &metricsfake.Clientset{}
	api.AddReactor("list", "pods", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, &v1beta1.PodMetricsList{Items: s.metrics}, s.away
	})
	c := fake.NewClientBuilder().WithObjects(append(objects, node)...).WithStatusSubresource(node).Build()
	o := Options{Settings: settings, Mode: mode}
	o.Growth = 1e6
	s.controller = &controller{
		Options: o, client: c, metrics: api.MetricsV1beta1(), clock: s.clock, nodes: map[string]*Node{},
		forecast: &forecast{options: o, client: c, clock: s.clock},
	}
	return s
}

func (s *site) measure(pod string, age time.Duration) {
	s.metrics = append(s.metrics, v1beta1.PodMetrics{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: pod}, Timestamp: metav1.NewTime(s.clock.Now().Add(-age)),
		Containers: []v1beta1.ContainerMetrics{{Name: "c", Usage: v1.ResourceList{"cpu": resource.MustParse("500m")}}},
	})
}

func (s *site) offered(t *testing.T) (cpu, memory int64, ok bool) {
	t.Helper()
	n := &v1.Node{}
	require.NoError(t, s.client.Get(t.Context(), client.ObjectKey{Name: "a"}, n))
	q, ok := n.Status.Allocatable[CPU]
	m := n.Status.Allocatable[Memory]
	is := n.Status.Capacity[CPU]
	require.Equal(t, q.Value(), is.Value())
	return q.Value(), m.Value() >> 30, ok
}

// pass looks twice: an offer begins with nothing.
func (s *site) pass(t *testing.T) error {
	t.Helper()
	first := s.look(t.Context())
	s.clock.SetTime(s.clock.Now().Add(time.Minute))
	return errors.Join(first, s.look(t.Context()))
}

func TestPublishes(t *testing.T) {
	s := newSite(t, Apply, podOn("web-0", "2", nil), podOn("web-1", "1", nil), podOn("done", "5", func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded }),
		podOn("work", "2m", func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests = v1.ResourceList{CPU: resource.MustParse("1000")}
		}))
	s.measure("web-0", 0)
	require.NoError(t, s.pass(t))
	cpu, memory, _ := s.offered(t)
	assert.EqualValues(t, 6500, cpu, "their requests are expected, as there is no history")
	assert.EqualValues(t, 55, memory, "a hundredth is rounded off")

	s.forecast.midnight = begin
	s.forecast.slots = map[string][usage.SlotCount]float64{"shop/StatefulSet/web": {}}
	require.NoError(t, s.pass(t))
	cpu, _, _ = s.offered(t)
	assert.EqualValues(t, 8000, cpu, "web-1 has no sample, and counts at its request")

	s.clock.SetTime(begin.Add(5 * day))
	s.metrics = nil
	s.measure("web-0", 0)
	require.NoError(t, s.pass(t))
	cpu, _, _ = s.offered(t)
	assert.EqualValues(t, 6500, cpu, "the forecast is outdated")

	s.away = errors.New("away")
	s.clock.SetTime(s.clock.Now().Add(10 * time.Minute))
	require.ErrorContains(t, s.pass(t), "away")
	cpu, memory, ok := s.offered(t)
	assert.True(t, ok)
	assert.Zero(t, cpu+memory)

	s.Mode = Observe
	require.Error(t, s.pass(t))
	_, _, ok = s.offered(t)
	assert.False(t, ok, "the way back")
}

// A look may take long: it is of the time of its samples, and a scrape in the middle has all nodes.
func TestLongLook(t *testing.T) {
	s := newSite(t, Apply, podOn("web-0", "2", nil))
	series, cluster := 0, s.client
	s.client = interceptor.NewClient(cluster.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			err := c.List(ctx, list, o...)
			if nodes, ok := list.(*v1.NodeList); ok {
				first := nodes.Items[0].DeepCopy()
				first.Name = "0"
				nodes.Items = append([]v1.Node{*first}, nodes.Items...)
			}
			return err
		},
		SubResourcePatch: func(_ context.Context, _ client.Client, _ string, n client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
			if n.GetName() == "0" {
				series = testutil.CollectAndCount(gauges)
				s.clock.SetTime(s.clock.Now().Add(time.Hour))
			}
			return nil
		},
	})
	for range 2 {
		s.metrics = nil
		s.measure("web-0", 0)
		begun := s.clock.Now()
		require.NoError(t, s.look(t.Context()))
		require.Equal(t, begun.Add(time.Hour), s.clock.Now())
		require.Equal(t, begun, s.nodes["a"].last)
	}
	require.Equal(t, 8, series)
	s.client = cluster
	require.NoError(t, s.look(t.Context()))
	require.Equal(t, 4, testutil.CollectAndCount(gauges), "a node is gone")
}

// Online pods hold the larger of the memory that they request and use. With requests of their own they are online pods.
func TestMemoryOfOnlinePods(t *testing.T) {
	batch := func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests[CPU] = resource.MustParse("1000") }
	s := newSite(t, Apply, podOn("web-0", "2", nil), podOn("web-1", "1", nil), podOn("web-2", "1", batch))
	for name, bytes := range map[string]string{"web-0": "20Gi", "web-1": "1Gi"} {
		s.measure(name, 0)
		s.metrics[len(s.metrics)-1].Containers[0].Usage["memory"] = resource.MustParse(bytes)
	}
	require.NoError(t, s.pass(t))
	cpu, memory, _ := s.offered(t)
	assert.EqualValues(t, 5500, cpu, "9.5 - 2 - 1 - 1")
	assert.EqualValues(t, 35, memory, "64 - 20 - 4 - 4, a hundredth is rounded off")
	s.metrics = nil
	s.measure("web-0", 10*time.Minute)
	s.metrics[0].Containers[0].Usage["memory"] = resource.MustParse("20Gi")
	s.measure("web-1", 0)
	require.NoError(t, s.pass(t))
	_, memory, _ = s.offered(t)
	assert.EqualValues(t, 51, memory, "an old sample")
}

func TestObservePublishesNothing(t *testing.T) {
	s := newSite(t, Observe, podOn("web-0", "2", nil))
	s.measure("web-0", 0)
	require.NoError(t, s.pass(t))
	_, _, ok := s.offered(t)
	assert.False(t, ok)
}

// Old samples are those of a metrics API that stopped.
func TestOldSamples(t *testing.T) {
	s := newSite(t, Apply, podOn("web-0", "2", nil))
	s.measure("web-0", 10*time.Minute)
	require.NoError(t, s.pass(t))
	cpu, _, _ := s.offered(t)
	assert.Zero(t, cpu)
	empty := newSite(t, Apply)
	require.NoError(t, empty.pass(t))
	cpu, _, _ = empty.offered(t)
	assert.EqualValues(t, 9500, cpu, "a node without online pods")
}

// The slots of a night are the expected use; a workload without history counts at its request.
func TestForecastFromPrometheus(t *testing.T) {
	server := httptest.NewServer(&prometheustest.Fake{Series: []prometheustest.Series{
		prometheustest.Of("shop", "web-0", "c", func(step int64) float64 {
			if step%288/12 == 9 {
				return 1.5
			}
			return .25
		}, prometheustest.Always(1e9)),
	}})
	defer server.Close()
	s := newSite(t, Apply, podOn("web-0", "2", nil), podOn("db-0", "3", func(p *v1.Pod) { p.OwnerReferences[0].Name = "db" }))
	f := s.forecast
	f.options.Prometheus, f.options.Folder = []string{server.URL}, t.TempDir()
	f.due(t.Context())
	require.Equal(t, begin.Truncate(day), f.midnight)
	var web, db v1.Pod
	require.NoError(t, s.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web-0"}, &web))
	require.NoError(t, s.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "db-0"}, &db))
	of := f.of(&web, 2, begin)
	assert.InEpsilon(t, 1.5, of(9), .011)
	assert.InEpsilon(t, .25, of(10), .011)
	assert.Equal(t, 3., f.of(&db, 3, begin)(9))
	assert.Equal(t, 2., f.of(&web, 2, begin.Add(5*day))(9), "outdated")

	// Prometheus is away: the nights before stay, and the next attempt waits.
	server.Close()
	s.clock.SetTime(begin.Add(day))
	f.due(t.Context())
	require.Equal(t, begin.Truncate(day), f.midnight)
	assert.Equal(t, begin.Add(day).Add(pause), f.again)
	assert.InEpsilon(t, 1.5, f.of(&web, 2, s.clock.Now())(9), .011)
}
