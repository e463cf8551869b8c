//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/lab/podspace"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/capacity"
	"github.com/sigma-scheduler/sigma/mpa/knative"
)

// A restartSite is Knative with two activators before all pods, and the updater.
type restartSite struct {
	*knativeSite
	pods       *e2e.LivePods
	activators []*e2e.Activator
	leaving    []*e2e.Activator // asked to end
}

const activatorKilled = "one of two activators is killed"

// restarts are the faults, by what the table calls them.
var restarts = []struct {
	name string
	do   func(*restartSite, *testing.T)
}{
	{"the autoscaler is killed", func(s *restartSite, t *testing.T) {
		s.k.Autoscaler.Restart(t)
		for _, a := range s.activators {
			a.WaitReady(t)
		}
	}},
	{activatorKilled, func(s *restartSite, t *testing.T) { s.activators[0].KillAndRestart(t) }},
	{"an activator is asked to end, after another has begun", func(s *restartSite, _ *testing.T) {
		s.leaving = append(s.leaving, s.activators[0])
		s.activators = append(s.activators[1:], s.activators[0].Replace(s.T)) // they outlive the round
	}},
}

// A restartRow counts what became of the rounds of a fault.
type restartRow struct {
	rounds, promoted, takenBack int
	kept, targetsBack           int
	requests, lost              int
	own                         int // lost by the function of a canary that is taken back
	cut                         int // lost in an activator that was killed, or by that
}

// Of the two Services of a round, with the limit that was learned one loses fewer requests, as its function has as
// many connections, and the other nearly all.
const (
	goodLimit, badLimit = 8, 3
	restartWait         = 40 * time.Millisecond

	rateBefore, rateAfter = 40, 60 // targets
)

func restartFunction(pod *v1.Pod) e2e.Function {
	f := e2e.Function{Wait: restartWait, CPU: 100 * time.Microsecond}
	limit := ""
	for _, c := range pod.Spec.Containers {
		for _, e := range c.Env {
			if e.Name == "CONTAINER_CONCURRENCY" {
				limit = e.Value
			}
		}
	}
	switch {
	case strings.HasPrefix(pod.Name, "good"):
		f.Connections = goodLimit
	case limit == strconv.Itoa(badLimit):
		f.Connections = 1
	}
	return f
}

// TestKnativeRestarts: while a canary is under way that gets better, and one that loses requests, and then while another target
// is tried, Knative's autoscaler or one of two activators is restarted, through which all requests go. Each ends as it
// would, and no request is lost, but for those that were in an activator that was killed. The test plays the
// recommender: it says what was learned, and of each Revision what the client saw. With SIGMA_ROUNDS it does so often,
// and prints the rows of a table.
func TestKnativeRestarts(t *testing.T) {
	if lack := podspace.Missing(); len(lack) > 0 {
		if os.Getenv("SIGMA_CGROUPS") != "" {
			t.Fatalf("SIGMA_CGROUPS is set, and what is missing: %s", strings.Join(lack, ", "))
		}
		t.Skipf("pods cannot be processes without %s", strings.Join(lack, ", "))
	}
	rounds := 1
	if text := os.Getenv("SIGMA_ROUNDS"); text != "" {
		var err error
		rounds, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	c := ownCluster(t)
	mpa := installMPA(t, c, "mpa/apart")
	knativeRights(t, c)
	s := &restartSite{knativeSite: &knativeSite{T: t, c: c, k: c.StartKnative(t)}}
	s.pods = s.k.StartPods(t, restartFunction)
	s.activators = []*e2e.Activator{s.k.StartActivator(t), s.k.StartActivator(t)}
	updater := mpa.startPart(t, c, "updater", "--canary-ready=60s", "--canary-least=2s", "--canary-longest=5m", "--canary-pause=1s", "--leader-elect=false")

	for i, fault := range restarts {
		t.Run(fault.name, func(t *testing.T) {
			row := restartRow{}
			for n := range rounds {
				ok := t.Run(fmt.Sprint("round ", n+1), func(t *testing.T) { s.round(t, n+i*rounds, i, &row) })
				require.True(t, ok)
			}
			t.Logf("| %s | %d | %d | %d | %d | %d | %d | %d | %d | %d |", fault.name, row.rounds, row.promoted, row.takenBack, row.kept, row.targetsBack, row.requests, row.own, row.cut, row.lost)
		})
	}
	for _, a := range s.leaving {
		a.WaitEnded(t)
	}
	requireAllowed(t, updater)
}

// apply makes the Services of a round, which is before they are needed.
func (s *restartSite) apply(n int) {
	for _, name := range []string{"good", "bad"} {
		x := knativeCase{name: fmt.Sprint(name, n), pods: 1}
		s.c.Kubectl(s.T, strings.Replace(x.service(), `target-burst-capacity: "0"`, `target-burst-capacity: "-1"`, 1), "apply", "-f", "-")
	}
}

// round is a canary of two Services and then another target of one, with a restart during each.
func (s *restartSite) round(t *testing.T, n, fault int, row *restartRow) {
	draw := rand.New(rand.NewPCG(1, uint64(n)))
	site := &knativeSite{T: t, c: s.c, k: s.k}
	s.apply(n) // the first round has not been prepared
	good, bad := s.learner(t, fmt.Sprint("good", n), goodLimit), s.learner(t, fmt.Sprint("bad", n), badLimit)
	s.apply(n + 1)
	good.start(t, 24, 120*time.Millisecond)
	bad.start(t, 40, 400*time.Millisecond)
	pause := func(most time.Duration) { time.Sleep(time.Duration(draw.Float64() * float64(most))) }

	pause(4 * time.Second)
	e2e.Wait(t, "a canary", func() (string, bool) { return good.is(t).String(), good.is(t).Phase != "" })
	require.Equal(t, knative.Canary, good.is(t).Phase)
	restarts[fault].do(s, t)
	first, second := good.name+"-00001", good.name+"-00002"
	site.await(good.name, "the promotion", like(e2e.Split{second: 100}))
	require.Equal(t, []e2e.Split{{first: 100}, {first: 90, second: 10}, {first: 50, second: 50}, {second: 100}}, s.k.Splits("default", good.name))
	b := bad.name + "-0000"
	site.await(bad.name, "the way back", like(e2e.Split{b + "3": 100}))
	require.Equal(t, []e2e.Split{{b + "1": 100}, {b + "1": 90, b + "2": 10}, {b + "1": 100}, {b + "3": 100}}, s.k.Splits("default", bad.name))
	row.rounds++
	row.promoted++
	row.takenBack++
	require.EqualValues(t, goodLimit, site.limit(good.name))
	require.Zero(t, site.limit(bad.name))

	stage := func(want ...knative.Stage) {
		t.Helper()
		e2e.Wait(t, fmt.Sprint("a target ", want), func() (string, bool) {
			state := good.is(t)
			return state.String(), state.Target != nil && slices.Contains(want, state.Target.Stage)
		})
	}
	target := fmt.Sprint(rateAfter)
	good.rate.Store(rateAfter)
	stage(knative.Measuring)
	pause(3 * time.Second)
	require.True(t, good.is(t).Trying())
	restarts[fault].do(s, t)
	// A target is compared with what was before, and what a killed activator had in it may hold connections still: then
	// it may be taken back as if it were to blame.
	ends := []knative.Stage{knative.Kept}
	if restarts[fault].name == activatorKilled {
		ends = append(ends, knative.Back)
	}
	stage(ends...)
	if good.is(t).Target.Stage == knative.Back {
		target = fmt.Sprint(rateBefore)
		row.targetsBack++
	} else {
		row.kept++
	}
	e2e.Wait(t, "the PodAutoscaler's target", func() (string, bool) {
		is := s.k.Get(t, e2e.KnativeScalers, "default", second).GetAnnotations()["autoscaling.knative.dev/target"]
		return is, is == target
	})
	require.Equal(t, []string{first, second}, s.k.Revisions(t, "default", good.name))
	require.Equal(t, e2e.Split{second: 100}, s.k.Split("default", good.name))

	for _, l := range []*learner{good, bad} {
		tallies := l.client.Tallies()
		t.Logf("%s: %+v", l.name, tallies)
		for revision, n := range tallies {
			require.True(t, s.k.Activated("default", revision), revision)
			row.requests += n.Answered + n.Full + n.Cut + n.Lost
			row.lost += n.Lost
			row.cut += n.Cut
		}
	}
	require.Zero(t, row.lost, "%v %v", good.client.Lost(), bad.client.Lost())
	// What was in a killed activator may hold its connection still when queue-proxy lets the next one come.
	full := good.client.Tallies()[second].Full
	row.cut += full
	row.own += bad.client.Tallies()[b+"2"].Full
	require.Positive(t, row.own)
	if restarts[fault].name != activatorKilled {
		require.Zero(t, row.cut)
	}
	require.LessOrEqual(t, full, good.client.Tallies()[second].Cut)
}

// A learner plays the recommender for a Service.
type learner struct {
	s      *restartSite
	name   string
	limit  int64
	rate   atomic.Int64 // target
	client *e2e.Client

	windows  int32
	compared string // what is, since when, and what the client had seen before
	since    time.Time
	before   map[string]e2e.Tally
}

// learner waits for a Service of the round.
func (s *restartSite) learner(t *testing.T, name string, limit int64) *learner {
	t.Helper()
	require.Equal(t, name+"-00001", s.k.WaitReady(t, "default", name))
	e2e.Wait(t, "activators in the path", func() (string, bool) { return "", s.k.Activated("default", name+"-00001") })
	l := &learner{s: s, name: name, limit: limit, windows: 5}
	l.rate.Store(rateBefore)
	return l
}

// start starts client and recommender until the test ends.
func (l *learner) start(t *testing.T, atOnce int, period time.Duration) {
	t.Helper()
	l.s.c.Kubectl(t, strings.NewReplacer("NAME", l.name, "MOST", "310").Replace(knativeObject), "apply", "-f", "-")
	t.Cleanup(func() {
		l.s.c.Kubectl(t, "", "delete", "multidimpodautoscaler", l.name, "-n", "default")
		l.s.c.Kubectl(t, "", "delete", "services.serving.knative.dev", l.name, "-n", "default", "--wait=false")
	})
	l.client = l.s.pods.StartClient(t, "default", l.name, atOnce, period)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			if err := l.say(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("recommender of %s: %v", l.name, err)
			}
			time.Sleep(250 * time.Millisecond)
		}
	})
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
}

// is the state of the Service.
func (l *learner) is(t *testing.T) *knative.State {
	t.Helper()
	state, err := knative.StateOf(l.s.k.Get(t, e2e.KnativeServices, "default", l.name))
	require.NoError(t, err)
	return &state
}

// say writes the status: what was learned, and what the client has seen of the Revisions that are compared.
func (l *learner) say(ctx context.Context) error {
	service, err := l.s.c.Dynamic.Resource(e2e.KnativeServices).Namespace("default").Get(ctx, l.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	state, err := knative.StateOf(service)
	if err != nil {
		return err
	}
	l.windows++ // the updater looks when something changes
	status := v1alpha1.ConcurrencyStatus{
		Windows: l.windows, Limit: int32(l.limit), Demand: &v1alpha1.DurationRange{Value: metav1.Duration{Duration: 4 * time.Millisecond}},
		RatePerPod: resource.NewMilliQuantity(int64(1000*capacity.Headroom*float64(l.rate.Load())), resource.DecimalSI),
		Trial:      l.trial(service, &state),
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"observedGeneration": 1, "phase": "Recommending", "concurrency": status}})
	if err != nil {
		return err
	}
	objects := schema.GroupVersionResource{Group: v1alpha1.GroupName, Version: "v1alpha1", Resource: "multidimpodautoscalers"}
	_, err = l.s.c.Dynamic.Resource(objects).Namespace("default").Patch(ctx, l.name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// trial is what the client has seen since the same is compared; nil = nothing is.
func (l *learner) trial(service *unstructured.Unstructured, state *knative.State) *v1alpha1.Trial {
	stable, since := state.Measured()
	canary, split := stable, l.s.k.Split("default", l.name)
	if state.Phase == knative.Canary {
		stable, since = state.Stable, state.Since
		canary, _, _ = unstructured.NestedString(service.Object, "status", "latestReadyRevisionName")
	}
	if stable == "" || split[canary] == 0 {
		return nil
	}
	now, is := time.Now(), l.client.Tallies()
	if compared := fmt.Sprint(stable, canary, since, split); compared != l.compared {
		l.compared, l.since, l.before = compared, now, is
	}
	arm := func(revision string) v1alpha1.Arm {
		n, before := is[revision], l.before[revision]
		lost := n.Full + n.Lost - before.Full - before.Lost
		return v1alpha1.Arm{
			Revision: revision, Requests: float64(n.Answered - before.Answered + lost), Lost: float64(lost),
			PodSeconds: now.Sub(l.since).Seconds(), // there is one
		}
	}
	return &v1alpha1.Trial{Since: metav1.NewMicroTime(l.since), Time: metav1.NewMicroTime(now), Stable: arm(stable), Canary: arm(canary)}
}
