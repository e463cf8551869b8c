package recommender

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/sigma-scheduler/sigma/binpack/packtest"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/collect"
	"github.com/sigma-scheduler/sigma/mpa/journal"
	"github.com/sigma-scheduler/sigma/mpa/target"
)

// The load of a workload rises and falls, and its object is deleted and made again after 25
// minutes to 20 hours. An event is one decision: the pods are measured, the agents recommend, the
// guards decide, the journal gets a line, and the status is written where it changed or is a
// minute old. Client, caches and journal are those of the program; the API server is not.
func TestSoak(t *testing.T) {
	api := &apiServer{
		metrics: &usage{pods: 2, cpu: "480m", memory: "300Mi", at: start},
		events:  make(chan watched, 1), watching: make(chan struct{}),
		lists: map[string][]client.Object{
			"deployments": {deployment(2)}, "replicasets": {replicaSet()}, "pods": {pod(0), pod(1)},
			"horizontalpodautoscalers": {},
		},
	}
	r, clock, seen := newProgram(t, api)
	dir := r.options.JournalDir
	soak := packtest.NewSoak(t, "recommender", 1000)
	request := ctrl.Request{NamespacedName: key}
	reconcile := func() {
		t.Helper()
		api.metrics.at = clock.Now()
		_, err := r.Reconcile(t.Context(), request)
		require.NoError(t, err)
	}
	steps := 0
	for life, made, more := 100, 0, true; more; life, made = life%5000+100, made+1 {
		o := web()
		o.UID = types.UID(fmt.Sprint("mpa-", made))
		o.CreationTimestamp.Time = clock.Now()
		api.set("ADDED", o)
		seen()
		for range life {
			if !more {
				break
			}
			clock.Step(15 * time.Second)
			if s := r.objects[key]; s != nil && s.slot.next.After(clock.Now()) {
				clock.SetTime(s.slot.next)
			}
			api.metrics.cpu = fmt.Sprintf("%dm", 100+steps%160*5/2)
			reconcile()
			require.True(t, r.objects[key].slot.next.After(clock.Now()), "it decided")
			seen()
			more = soak.Event()
			steps++
		}
		api.set("DELETED", o)
		seen()
		reconcile()
		require.Empty(t, r.objects)
		require.NoError(t, journal.Prune(dir, time.Now()))
	}
	require.Greater(t, api.writes, steps/5)
	t.Logf("%d decisions, %d writes of the status", steps, api.writes)
	soak.Flat()
}

// newProgram starts a recommender, but for its queue, against an API server, and waits for its
// caches. The function that it returns waits until the cache has the latest version of the object.
func newProgram(t *testing.T, api *apiServer) (r *reconciler, clock *testclock.FakeClock, seen func()) {
	t.Helper()
	server := httptest.NewServer(api)
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	config := &rest.Config{Host: server.URL, QPS: -1}
	c, err := cluster.New(config, func(o *cluster.Options) {
		o.Scheme = scheme
		o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			return testrestmapper.TestOnlyStaticRESTMapper(scheme), nil
		}
	})
	require.NoError(t, err)
	require.NoError(t, target.Index(t.Context(), c.GetFieldIndexer()))
	versions := make(chan string, 1)
	ctx, cancel := context.WithCancel(t.Context())
	informer, err := c.GetCache().GetInformer(t.Context(), &v1alpha1.MultidimPodAutoscaler{}, cache.BlockUntilSynced(false))
	require.NoError(t, err)
	tell := func(o any) {
		select {
		case versions <- o.(client.Object).GetResourceVersion():
		case <-ctx.Done():
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: tell, UpdateFunc: func(_, o any) { tell(o) }, DeleteFunc: tell,
	})
	require.NoError(t, err)
	ended := make(chan error)
	go func() { ended <- c.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		c.GetHTTPClient().CloseIdleConnections()
		server.CloseClientConnections()
		server.Close()
	})
	require.True(t, c.GetCache().WaitForCacheSync(ctx))
	<-api.watching

	metrics, err := metricsclient.NewForConfigAndClient(config, c.GetHTTPClient())
	require.NoError(t, err)
	clock = testclock.NewFakeClock(start)
	prometheus, err := collect.NewPrometheus(nil, 2, clock.Now)
	require.NoError(t, err)
	options := defaults()
	options.JournalDir, options.JournalBytes = t.TempDir(), 1<<20
	require.NoError(t, options.Validate())
	r = &reconciler{
		Client: c.GetClient(), live: c.GetAPIReader(), options: options, clock: clock, events: &record.FakeRecorder{},
		vpas:      &vpas{cache: c.GetCache(), mapper: c.GetRESTMapper(), clock: clock},
		collector: &collect.Collector{Client: c.GetCache(), Metrics: metrics, Prometheus: prometheus, Timeout: askFor},
		objects:   map[types.NamespacedName]*object{}, of: map[string]int{}, full: map[string]time.Time{},
	}
	known := 0
	return r, clock, func() {
		for latest := api.now(); known < latest; known++ {
			select {
			case v := <-versions:
				require.Equal(t, fmt.Sprint(known+1), v)
			case <-time.After(time.Minute):
				require.Fail(t, "the cache does not follow")
			}
		}
	}
}
