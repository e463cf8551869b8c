package history

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/sigma-scheduler/sigma/internal/usage/prometheus/prometheustest"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/collect"
	"github.com/sigma-scheduler/sigma/mpa/target"
)

// noon of day 20,000.
var noon = time.Unix(20000*86400+43200, 0).UTC()

const mi = 1 << 20

// A site is a Keeper of the server main, and its cluster.
type site struct {
	*Keeper
	t     *testing.T
	c     client.Client
	clock *testclock.FakeClock
	main  *prometheustest.Fake
	down  bool
}

func newSite(t *testing.T, objects ...client.Object) *site {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	s := &site{t: t, c: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), clock: testclock.NewFakeClock(noon), main: &prometheustest.Fake{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.down {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		s.main.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	p, err := collect.NewPrometheus([]collect.Server{{Name: "main", URL: server.URL}}, 2, s.clock.Now)
	require.NoError(t, err)
	s.Keeper = &Keeper{
		Client: s.c, Prometheus: p, Folder: t.TempDir(), Clock: s.clock,
		Counts: func(o *v1alpha1.MultidimPodAutoscaler) bool { return o.Spec.Recommender.Name == "default" },
	}
	return s
}

func object(name string) *v1alpha1.MultidimPodAutoscaler {
	return &v1alpha1.MultidimPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Generation: 7},
		Spec: v1alpha1.MultidimPodAutoscalerSpec{
			ScaleTargetRef: v1alpha1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
			Metrics:        v1alpha1.Metrics{Prometheus: &v1alpha1.Prometheus{Server: "main"}},
			Recommender:    v1alpha1.Recommender{Name: "default", Algorithm: v1alpha1.AlgorithmUsage},
			Constraints:    v1alpha1.Constraints{Containers: []v1alpha1.ContainerConstraints{{Name: "app"}}},
		},
	}
}

func workload(name string, resources corev1.ResourceRequirements) *target.Workload {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "log"}, {Name: "app", Resources: resources}}
	return &target.Workload{Object: d, Template: &d.Spec.Template}
}

func list(cpu, memory string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for name, text := range map[corev1.ResourceName]string{"cpu": cpu, "memory": memory} {
		if text != "" {
			l[name] = resource.MustParse(text)
		}
	}
	return l
}

var ordinary = corev1.ResourceRequirements{Requests: list("500m", "512Mi"), Limits: list("1", "")}

// use is the result for an object, with the reason of its problem.
func (s *site) use(name string) (*mpa.Use, string) {
	s.t.Helper()
	u, problem := s.Use(object(name), workload(name, ordinary))
	if problem != nil {
		return u, problem.Reason
	}
	return u, ""
}

func steady(pod string, cpu, memory float64) prometheustest.Series {
	return prometheustest.Of("shop", pod, "app", prometheustest.Always(cpu), prometheustest.Always(memory))
}

// Sizes are those of the workload's containers: of pods that are gone, by the owners that
// kube-state-metrics had or by their names, and of no other pod.
func TestSizes(t *testing.T) {
	s := newSite(t, object("web"), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-alone"}})
	s.main.Series = []prometheustest.Series{
		steady("web-7c9d8f-x2k94", .1, 200*mi),
		prometheustest.Of("shop", "odd-name", "app", prometheustest.Always(.15), prometheustest.Always(220*mi)),
		steady("web-7c9d8f-x2k9", 3, 5e9), // four letters: of something else
		steady("other-7c9d8f-x2k94", 3, 5e9),
		prometheustest.Of("shop", "web-7c9d8f-x2k94", "log", prometheustest.Always(3), prometheustest.Always(5e9)),
		prometheustest.Of("bank", "web-7c9d8f-x2k94", "app", prometheustest.Always(3), prometheustest.Always(5e9)),
	}
	s.main.Owners = []map[string]string{
		{"metric": "kube_pod_owner", "namespace": "shop", "pod": "odd-name", "owner_kind": "ReplicaSet", "owner_name": "former-7c9d8f"},
		{"metric": "kube_replicaset_owner", "namespace": "shop", "replicaset": "former-7c9d8f", "owner_kind": "Deployment", "owner_name": "web"},
	}
	u, reason := s.use("web")
	require.Equal(t, "HistoryUnread", reason)
	require.NotEmpty(t, u.Missing)
	s.Read(t.Context())
	u, reason = s.use("web")
	require.Empty(t, reason)
	require.Empty(t, u.Missing)
	require.EqualValues(t, 7, u.Generation)
	require.Equal(t, noon.Truncate(day), u.Midnight)
	require.Equal(t, []mpa.TemplateSize{{Request: mpa.Resources{CPU: 500, Memory: 512 * mi}, Limit: mpa.Resources{CPU: 1000}}}, u.Template)
	require.Len(t, u.Sizes, 1)
	require.InDelta(t, 139, u.Sizes[0].CPU, 1, "halfway between .15 and their mean")
	require.EqualValues(t, 253*mi, u.Sizes[0].Memory, "220 × 1.15")
	require.Equal(t, 28, u.Sizes[0].Days)
	require.Len(t, s.servers["main"].histories, 2, "app and log of web, and no others")
}

// A size that is not known has a reason, and the template's class and limits count.
func TestTemplates(t *testing.T) {
	s := newSite(t, object("web"))
	s.main.Series = []prometheustest.Series{prometheustest.Of("shop", "web-7c9d8f-x2k94", "app",
		func(step int64) float64 {
			if step < (20000-9)*288 {
				return prometheustest.None
			}
			return .1
		}, prometheustest.Always(200*mi))}
	s.Read(t.Context())
	u, _ := s.use("web")
	require.Zero(t, u.Sizes[0].CPU)
	require.Equal(t, "request: too few days of history", u.Sizes[0].CPUReason)
	require.Equal(t, 9, u.Sizes[0].Days)
	require.EqualValues(t, 230*mi, u.Sizes[0].Memory)

	w := workload("web", corev1.ResourceRequirements{Limits: list("1", "1Gi")})
	u, _ = s.Use(object("web"), w)
	require.Equal(t, mpa.Resources{CPU: 1000, Memory: 1 << 30}, u.Template[0].Request, "as the API server has it")
	require.Empty(t, u.Fixed, "log has no limits")
	w.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: list("1", "1Gi")}
	u, problem := s.Use(object("web"), w)
	require.Nil(t, problem)
	require.Contains(t, u.Fixed, "Guaranteed")
	o := object("web")
	o.Spec.Recommender.Algorithm = v1alpha1.AlgorithmTemplate
	u, problem = s.Use(o, w)
	require.Nil(t, problem)
	require.Empty(t, u.Fixed)
	require.Nil(t, u.Sizes)
}

// The day before is read a little after midnight; new workloads need no query.
func TestNightly(t *testing.T) {
	s := newSite(t, object("web"))
	s.main.Series = []prometheustest.Series{steady("web-7c9d8f-x2k94", .1, 200*mi), steady("api-7c9d8f-x2k94", .2, 100*mi)}
	s.Read(t.Context())
	asked := s.main.Asked.Load()
	s.Read(t.Context())
	require.NoError(t, s.c.Create(t.Context(), object("api")))
	_, reason := s.use("api")
	require.Equal(t, "HistoryUnread", reason)
	s.clock.Step(tick)
	s.Read(t.Context())
	require.Equal(t, asked, s.main.Asked.Load(), "all days are in files")
	u, reason := s.use("api")
	require.Empty(t, reason)
	require.InDelta(t, 201, u.Sizes[0].CPU, 2)
	together, _ := s.use("web")
	s.atOnce, s.servers = 1, nil
	s.Read(t.Context())
	apart, reason := s.use("web")
	require.Empty(t, reason)
	require.Equal(t, together, apart)
	again, _ := s.use("api")
	require.Equal(t, u, again)

	midnight := noon.Truncate(day).Add(day)
	s.clock.SetTime(midnight.Add(delay - time.Second))
	s.Read(t.Context())
	require.Equal(t, asked, s.main.Asked.Load())
	s.clock.SetTime(midnight.Add(delay))
	s.Read(t.Context())
	require.Greater(t, s.main.Asked.Load(), asked)
	u, _ = s.use("web")
	require.Equal(t, midnight, u.Midnight)
	files, err := filepath.Glob(filepath.Join(s.Folder, "*", "*.gz"))
	require.NoError(t, err)
	require.Len(t, files, 29)

	asked = s.main.Asked.Load()
	s.clock.SetTime(midnight.Add(-time.Hour)) // the clock went back a little
	s.Read(t.Context())
	u, _ = s.use("web")
	require.Equal(t, midnight, u.Midnight)
	require.Equal(t, asked, s.main.Asked.Load())
	s.clock.SetTime(midnight.Add(-70 * time.Hour)) // far
	s.Read(t.Context())
	u, _ = s.use("web")
	require.Equal(t, midnight.Add(-3*day), u.Midnight)
}

// After a failure it is tried again, in growing pauses; the last sizes stay.
func TestFailures(t *testing.T) {
	s := newSite(t, object("web"))
	s.main.Series = []prometheustest.Series{steady("web-7c9d8f-x2k94", .1, 200*mi)}
	s.down = true
	tries := 0
	for range 4 * 60 * 2 { // hours
		before := s.servers["main"]
		var again time.Time
		if before != nil {
			again = before.again
		}
		s.Read(t.Context())
		if !s.servers["main"].again.Equal(again) {
			tries++
		}
		s.clock.Step(30 * time.Second)
	}
	require.InDelta(t, 12, tries, 2, "after 1, 2, 4, 8, 16, 30, 30 … minutes")
	u, reason := s.use("web")
	require.Equal(t, "HistoryFailed", reason)
	require.Equal(t, "the use of the last 28 days cannot be read from server main: Prometheus answers with status code 403: the recommender's credentials for it are missing or wrong", u.Missing)
	s.down = false
	s.clock.Step(mostPause)
	s.Read(t.Context())
	u, reason = s.use("web")
	require.Empty(t, reason)
	size := u.Sizes
	s.down = true
	s.clock.Step(day)
	s.Read(t.Context())
	u, reason = s.use("web")
	require.Equal(t, "HistoryFailed", reason)
	require.Empty(t, u.Missing)
	require.Equal(t, size, u.Sizes)
}

// A process that is killed at any query resumes with the days that it has.
func TestKilledReading(t *testing.T) {
	s := newSite(t, object("web"))
	s.main.Series = []prometheustest.Series{steady("web-7c9d8f-x2k94", .1, 200*mi)}
	// Requests of a killed round may still be answered in the next one, so Answered stays the same.
	var left atomic.Int64
	var kill atomic.Pointer[context.CancelFunc]
	s.main.Answered = func() {
		if left.Add(-1) < 0 {
			(*kill.Load())()
		}
	}
	kills := 0
	for round := 1; s.servers["main"] == nil || s.servers["main"].histories == nil; round++ {
		require.Less(t, round, 30)
		ctx, cancel := context.WithCancel(t.Context())
		kill.Store(&cancel)
		left.Store(int64(3 * round))
		s.servers = nil // another process
		s.Read(ctx)
		cancel()
		kills++
	}
	require.Greater(t, kills, 3)
	left.Store(math.MaxInt64)
	u, reason := s.use("web")
	require.Empty(t, reason)
	require.InDelta(t, 101, u.Sizes[0].CPU, 1)
	require.NoError(t, os.RemoveAll(s.Folder))
	_, reason = s.use("web")
	require.Empty(t, reason, "what was read is in memory")
}

// Objects of others need no history, and one that is not named any more is forgotten.
func TestWhoseObjects(t *testing.T) {
	other, rule := object("web"), object("rule")
	other.Spec.Recommender.Name, rule.Spec.Recommender.Algorithm = "other", "vpa"
	s := newSite(t, other, rule)
	s.Read(t.Context())
	require.Zero(t, s.main.Asked.Load())
	require.NoError(t, s.c.Create(t.Context(), object("api")))
	s.main.Series = []prometheustest.Series{steady("api-7c9d8f-x2k94", .1, 200*mi)}
	s.Read(t.Context())
	require.Contains(t, s.servers, "main")
	require.NoError(t, s.c.Delete(t.Context(), object("api")))
	s.Read(t.Context())
	require.Empty(t, s.servers)
	s.Folder = ""
	_, reason := s.use("api")
	require.Equal(t, "HistoryOff", reason)
}

func TestStart(t *testing.T) {
	s := newSite(t, object("web"))
	s.main.Series = []prometheustest.Series{steady("web-7c9d8f-x2k94", .1, 200*mi)}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Start(ctx) }()
	require.Eventually(t, func() bool { _, reason := s.use("web"); return reason == "" }, 30*time.Second, 10*time.Millisecond)
	stop()
	require.NoError(t, <-done)
}
