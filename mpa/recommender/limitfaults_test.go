package recommender

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/capacity"
	"github.com/sigma-scheduler/sigma/mpa/collect"
)

const (
	podMemory = 512 << 20 // of each of the two pods
	podCores  = .5
	tick      = 15 * time.Second
)

// A function is behind the gates of two pods. What a request takes and how many come may change.
type function struct {
	capacity.Network
	base, each float64 // bytes of a pod, and of a request inside
	rate       float64 // requests a second, to both pods
	limit      int     // of each pod
}

// run returns, of a pod, the mean number inside and how many requests a second it answers, and
// whether its memory ends it.
func (f *function) run() (inside, answered float64, killed bool) {
	arriving, most := f.rate/2, f.Throughput(f.limit)
	inside, answered = float64(f.limit), most
	if arriving < most {
		n := 1
		for f.Throughput(n) < arriving {
			n++
		}
		below := f.Throughput(n - 1)
		inside, answered = float64(n-1)+(arriving-below)/(f.Throughput(n)-below), arriving
	}
	return inside, answered, f.base+inside*f.each > podMemory
}

// A site is a recommender beside a function, in virtual time. The updater's part is done at once.
type site struct {
	*world
	function
	twin    function // the same with the limit of the beginning
	leaders []*reconciler

	silent, stale bool          // metrics
	ahead         time.Duration // of Prometheus' clock and the metrics API's
	away          bool          // the API server, for writes
	ended         string        // by whom the updater's part was ended

	inside, answered, failed float64 // of both pods
	lost, lostTwin, arrived  float64
	last                     int64 // recommendation carried out
	changes, told            int
	kills, twinKills         int
	failure                  func(next func() error) error
	steps                    int
	problems                 []string
}

func newSite(t *testing.T, random *rand.Rand) *site {
	t.Helper()
	s := &site{world: newWorld(t, func(o *v1alpha1.MultidimPodAutoscaler) {
		o.Spec.Concurrency = &v1alpha1.Concurrency{Mode: v1alpha1.ConcurrencyApply, Learner: "law+walk", Min: 1, Max: 310, Initial: 10}
		o.Spec.Metrics.Prometheus = &v1alpha1.Prometheus{Server: "main", Queries: v1alpha1.Queries{Latency: "latency"}}
		o.Spec.SLO = &v1alpha1.SLO{Latency: &v1alpha1.LatencySLO{Percentile: 95, Target: metav1.Duration{Duration: time.Second}}}
		o.Spec.Recommender.Algorithm = "static"
	})}
	between := func(low, high float64) float64 { return low * math.Pow(high/low, random.Float64()) }
	f := &s.function
	f.Network = capacity.Network{Demand: between(.003, .03), Wait: between(.005, .1), Cores: podCores}
	f.limit, f.base = 10, 64<<20
	f.each = between(1<<20, .7*(podMemory-f.base)/10)
	f.rate = 2 * f.Throughput(10) * between(.5, 1.5)
	s.twin = *f
	s.leaders = []*reconciler{s.reconciler}
	s.patch = func(next func() error) error {
		if s.away {
			return errors.New("the API server is away")
		}
		if s.failure != nil {
			return s.failure(next)
		}
		return next()
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	var err error
	s.collector.Prometheus, err = collect.NewPrometheus([]collect.Server{{Name: "main", URL: server.URL}}, 20, s.clock.Now)
	require.NoError(t, err)
	return s
}

// ServeHTTP is the Prometheus.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query, now := r.FormValue("query"), float64(s.clock.Now().Add(s.ahead).UnixMilli())/1000
	old := 5.
	if s.stale {
		old = 1200
	}
	result := fmt.Sprintf(`[{"metric":{"mpa_selector":"0"},"value":[%f,"%f"]}]`, now, now-old)
	if !strings.Contains(query, "timestamp(") {
		value := s.rate
		for part, v := range map[string]float64{
			`"failed"`: s.failed, `"answered"`: s.answered, "inside_seconds": s.inside,
			"gate_waiting": 0, "gate_limit": float64(s.limit), "latency": .1,
		} {
			if strings.Contains(query, part) {
				value = v
			}
		}
		result = fmt.Sprintf(`[{"metric":{},"value":[%f,"%g"]}]`, now, value)
	}
	if s.silent && strings.Contains(query, "sigma_gate") {
		result = "[]"
	}
	_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":%s}}`, result)
}

// step lets the function run for a tick; then a leader decides.
func (s *site) step() {
	s.steps++
	s.clock.Step(tick)
	for i, f := range []*function{&s.function, &s.twin} {
		inside, answered, killed := f.run()
		lost := f.rate - 2*answered
		if killed {
			lost += 2 * (inside + answered*tick.Seconds()/2) / tick.Seconds()
		}
		lost *= tick.Seconds()
		if i == 1 {
			s.lostTwin += lost
			if killed {
				s.twinKills++
			}
			continue
		}
		s.arrived += f.rate * tick.Seconds()
		s.lost += lost
		s.inside, s.answered, s.failed = 2*inside, 2*answered, 0
		memory := f.base + inside*f.each
		if killed {
			s.kills++
			s.failed, s.answered = s.answered/2, s.answered/2
			s.kill()
			memory = podMemory
		}
		s.usage.cpu = fmt.Sprintf("%dm", int(1000*answered*f.Demand))
		s.usage.memory = strconv.Itoa(int(memory))
	}
	if !s.stale {
		s.usage.at = s.clock.Now().Add(s.ahead)
	}
	_, err := s.leaders[s.steps%len(s.leaders)].Reconcile(s.t.Context(), ctrl.Request{NamespacedName: key})
	require.NoError(s.t, err)
	s.carry()
}

// kill is what a kubelet reports of containers that ran out of memory.
func (s *site) kill() {
	for i := range 2 {
		p := &corev1.Pod{}
		require.NoError(s.t, s.Get(s.t.Context(), types.NamespacedName{Namespace: "shop", Name: fmt.Sprintf("web-%d", i)}, p))
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", LastTerminationState: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", FinishedAt: metav1.NewTime(s.clock.Now())},
		}}}
		require.NoError(s.t, s.Status().Update(s.t.Context(), p))
	}
}

// carry does what the updater does, and counts changes and what is told of them.
func (s *site) carry() {
	for len(s.events.Events) > 0 {
		if e := <-s.events.Events; strings.HasPrefix(e, "Normal Recommended ") && strings.Contains(e, " requests at once instead of what there is: ") {
			s.told++
		}
	}
	o := s.read()
	r := o.Status.Recommendation
	if r == nil || r.ID == s.last {
		return
	}
	if s.ended != "" {
		s.problems = append(s.problems, "a limit is asked for beside a user's")
	}
	s.last = r.ID
	if r.Change != v1alpha1.ChangeLimit || r.Reason == "" {
		s.problems = append(s.problems, fmt.Sprintf("recommendation %+v", r))
		return
	}
	if r.Limit < 1 || r.Limit > 310 {
		s.problems = append(s.problems, fmt.Sprintf("a limit of %d", r.Limit))
	}
	s.changes++
	s.limit = int(r.Limit)
	s.status(&v1alpha1.LimitInForce{ID: r.ID, Limit: r.Limit})
}

// status is the updater's part.
func (s *site) status(l *v1alpha1.LimitInForce) {
	o := s.read()
	o.Status.Actuation = &v1alpha1.Actuation{ID: max(1, s.last), Outcome: v1alpha1.OutcomeApplied, Time: micro(s.clock.Now()), Limit: l}
	require.NoError(s.t, s.Status().Update(s.t.Context(), o))
}

func (s *site) steady(n int) {
	for range n {
		s.step()
	}
}

// both changes the function with the learned limit and that with the first one.
func (s *site) both(change func(*function)) {
	change(&s.function)
	change(&s.twin)
}

// times makes requests larger: cpu, waiting and memory.
func times(k float64) func(*function) {
	return func(f *function) { f.Demand, f.Wait, f.each = k*f.Demand, k*f.Wait, k*f.each }
}

var limitFaults = []struct {
	name   string
	larger bool // requests grow at once: a pod may be killed before anything is measured
	do     func(*site)
}{
	{"nothing fails", false, func(*site) {}},
	{"a request takes so much memory that the pod is killed", true, func(s *site) {
		s.both(func(f *function) { f.each = 1.2 * (podMemory - f.base) / math.Max(1, s.inside/2) })
	}},
	{"the gates are killed and count from 0", false, func(s *site) {
		s.silent = true
		s.steady(2)
		s.silent = false
	}},
	{"killed between writing and reading back", false, func(s *site) {
		s.failure = func(next func() error) error {
			s.failure = nil
			if err := next(); err != nil {
				return err
			}
			return errors.New("the answer is lost")
		}
		s.steady(1)
		s.restart()
	}},
	{"killed before writing", false, func(s *site) {
		s.failure = func(func() error) error {
			s.failure = nil
			return errors.New("killed")
		}
		s.steady(1)
		s.restart()
	}},
	{"the API server is away for a minute", false, func(s *site) {
		s.away = true
		s.steady(4)
		s.away = false
	}},
	{"metrics are missing for five minutes", false, func(s *site) {
		s.silent, s.usage.err = true, errors.New("no metrics API")
		s.steady(20)
		s.silent, s.usage.err = false, nil
	}},
	{"metrics are stale for five minutes", false, func(s *site) {
		s.stale = true
		s.steady(20)
		s.stale = false
	}},
	{"metrics are of the pods before", false, func(s *site) {
		for i := range 2 {
			p := &corev1.Pod{}
			require.NoError(s.t, s.Get(s.t.Context(), types.NamespacedName{Namespace: "shop", Name: fmt.Sprintf("web-%d", i)}, p))
			p.Status.StartTime = &metav1.Time{Time: s.clock.Now().Add(2 * time.Minute)}
			require.NoError(s.t, s.Status().Update(s.t.Context(), p))
		}
		s.steady(8)
	}},
	{"a request takes three times as much at once", true, func(s *site) { s.both(times(3)) }},
	{"a request takes three times as much in ten steps", false, func(s *site) {
		for range 10 {
			s.both(times(math.Pow(3, .1)))
			s.steady(8)
		}
	}},
	{"three times the load at once", false, func(s *site) { s.both(func(f *function) { f.rate *= 3 }) }},
	{"three times the load in ten steps", false, func(s *site) {
		for range 10 {
			s.both(func(f *function) { f.rate *= math.Pow(3, .1) })
			s.steady(8)
		}
	}},
	{"the load goes to zero and comes back", false, func(s *site) {
		rate := s.rate
		s.both(func(f *function) { f.rate = 0 })
		s.steady(20)
		s.both(func(f *function) { f.rate = rate })
	}},
	{"the clock jumps an hour ahead", false, func(s *site) { s.clock.Step(time.Hour) }},
	{"the clock jumps ten minutes back", false, func(s *site) { s.clock.SetTime(s.clock.Now().Add(-10 * time.Minute)) }},
	{"the clock of the metrics is ten minutes ahead", false, func(s *site) {
		s.ahead = 10 * time.Minute
		s.steady(8)
		s.ahead = 0
	}},
	{"two lead", false, func(s *site) {
		r := s.reconciler
		s.leaders = append(s.leaders, &reconciler{
			Client: r.Client, live: r.live, collector: r.collector, options: r.options, clock: r.clock, events: r.events, vpas: r.vpas,
			objects: map[types.NamespacedName]*object{}, of: map[string]int{}, full: map[string]time.Time{}, made: map[string]time.Time{},
		})
		s.steady(20)
	}},
	{"a user sets the limit", false, func(s *site) {
		s.limit, s.ended = 5, "pod web-0: kubectl-annotate set the annotation"
		s.status(&v1alpha1.LimitInForce{ID: max(1, s.last), Limit: 5, Ended: s.ended})
	}},
}

// Whatever fails, the limit ends below what the memory of a pod holds, no more requests are lost
// than with the first limit, and each change is told with its reason.
// SIGMA_ROUNDS says how many functions each fault meets, each at another moment.
func TestLimitFaults(t *testing.T) {
	rounds, before, settle := 1, 20, 30 // ticks
	if text := os.Getenv("SIGMA_ROUNDS"); text != "" {
		var err error
		rounds, err = strconv.Atoi(text)
		require.NoError(t, err)
		before, settle = 60, 80
	}
	for i, fault := range limitFaults {
		t.Run(fault.name, func(t *testing.T) {
			var changes, kills, twinKills int
			var lost, lostTwin, arrived, highest float64
			for round := range rounds {
				random := rand.New(rand.NewPCG(uint64(i), uint64(round))) //nolint:gosec // a stream that a seed begins
				s := newSite(t, random)
				s.steady(1 + random.IntN(before))
				fault.do(s)
				s.steady(settle)
				share := (s.base + float64(s.limit)*s.each) / podMemory
				about := fmt.Sprintf("round %d: %+v", round, s.function)
				if s.ended == "" {
					require.True(t, share <= .9 || s.limit == 1, "the guard: %.2f of the memory at %d: %s", share, s.limit, about)
					require.LessOrEqual(t, s.lost, s.lostTwin+.03*s.arrived, about)
				} else { // what the user's limit loses is the user's
					require.Equal(t, 5, s.limit, about)
				}
				require.Empty(t, s.problems, about)
				require.GreaterOrEqual(t, s.told, s.changes, about)
				require.LessOrEqual(t, s.kills, s.twinKills, about)
				changes, kills, twinKills = changes+s.changes, kills+s.kills, twinKills+s.twinKills
				lost, lostTwin, arrived = lost+s.lost, lostTwin+s.lostTwin, arrived+s.arrived
				highest = max(highest, share)
			}
			t.Logf("| %s | %d | %d | %d | %d | %.1f %% | %.1f %% | %.0f %% |", fault.name, rounds, changes, kills, twinKills, 100*lost/arrived, 100*lostTwin/arrived, 100*highest)
		})
	}
}
