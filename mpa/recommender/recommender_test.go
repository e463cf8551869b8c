package recommender

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/journal"
)

func TestRecommends(t *testing.T) {
	w := newWorld(t)
	o := w.step(0)
	require.NotNil(t, o.Status.Recommendation, "%+v", o.Status)
	assert.Equal(t, int64(1), o.Status.Recommendation.ID)
	assert.Equal(t, v1alpha1.ChangeReplicas, o.Status.Recommendation.Change)
	assert.Equal(t, int32(4), o.Status.Recommendation.Replicas) // 480 of 500 m at 50 %: ⌈2 · 1.92⌉
	assert.Equal(t, "500m", o.Status.Recommendation.Containers[0].CPU.String())
	assert.Equal(t, "512Mi", o.Status.Recommendation.Containers[0].Memory.String())
	assert.Equal(t, v1alpha1.PhaseScaling, o.Status.Phase)
	assert.Equal(t, "OK", o.Status.Summary)
	assert.Equal(t, int32(2), o.Status.Observed.Ready)
	assert.Equal(t, "Scale", o.Status.Decision.Action)
	assert.Len(t, o.Status.Memory.ReplicaChanges, 1)
	assert.True(t, o.Status.Memory.Asked)
}

func TestOffRecommendsOnly(t *testing.T) {
	w := newWorld(t, func(o *v1alpha1.MultidimPodAutoscaler) { o.Spec.Mode = v1alpha1.ModeOff })
	o := w.step(0)
	assert.Equal(t, v1alpha1.PhaseRecommending, o.Status.Phase)
	assert.Equal(t, "hpa+vpa recommends; in mode Off nothing is changed.", condition(&o.Status, v1alpha1.ConditionActive).Message)
	assert.Equal(t, int32(4), o.Status.Decision.Replicas)
	assert.Nil(t, o.Status.Recommendation)
	assert.Empty(t, o.Status.Memory.ReplicaChanges)
	assert.Empty(t, w.events.Events)

	// Even where another object acts.
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "h"}}
	h.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	require.NoError(t, w.Create(t.Context(), h))
	assert.Equal(t, v1alpha1.PhaseRecommending, w.step(15*time.Second).Status.Phase)
	o = w.read()
	o.Spec.Mode = v1alpha1.ModeInPlace
	o.Generation++
	require.NoError(t, w.Update(t.Context(), o))
	o = w.step(15 * time.Second)
	assert.Equal(t, "HorizontalPodAutoscaler", o.Status.Summary)

	// The updater's last condition is from a mode that acted.
	o.Spec.Mode = v1alpha1.ModeOff
	o.Generation++
	require.NoError(t, w.Update(t.Context(), o))
	o.Status.Conditions = append(o.Status.Conditions,
		metav1.Condition{Type: v1alpha1.ConditionAble, Status: metav1.ConditionFalse, Reason: "OtherAutoscaler"},
		metav1.Condition{Type: v1alpha1.ConditionResize, Status: metav1.ConditionTrue, Reason: "Infeasible"})
	require.NoError(t, w.Status().Update(t.Context(), o))
	o = w.step(15 * time.Second)
	assert.Equal(t, v1alpha1.PhaseRecommending, o.Status.Phase)
	assert.Equal(t, "OK", o.Status.Summary)
}

func TestNothingOnMissingUsage(t *testing.T) {
	w := newWorld(t)
	w.usage.err = errors.New("down")
	for range 5 {
		o := w.step(15 * time.Second)
		assert.Nil(t, o.Status.Recommendation)
		assert.Equal(t, v1alpha1.PhaseStarting, o.Status.Phase)
		assert.Equal(t, "MetricsAPIFailed", o.Status.Summary)
		assert.Equal(t, "Hold", o.Status.Decision.Action)
	}
	w.usage.err = nil
	require.NotNil(t, w.step(15*time.Second).Status.Recommendation)
	w.usage.err = errors.New("down again")
	o := w.step(15 * time.Second)
	assert.Equal(t, v1alpha1.PhaseHolding, o.Status.Phase)
	assert.Equal(t, int64(1), o.Status.Recommendation.ID, "it stays")
}

// After a gap between decisions nothing shrinks, as after missing usage: Prometheus may have
// been down together with the recommender.
func TestNobodyLooked(t *testing.T) {
	idle := func(w *world) *v1alpha1.MultidimPodAutoscaler {
		w.usage.cpu = "5m"
		return w.step(15 * time.Second)
	}
	switchOff := func(w *world, replicas int32) {
		d := deployment(replicas)
		require.NoError(t, w.Update(t.Context(), d))
	}
	for _, test := range []struct {
		name string
		away func(w *world)
		held bool
	}{
		{"a short restart", func(w *world) { w.restart(); w.clock.Step(time.Minute) }, false},
		{"a long one", func(w *world) { w.restart(); w.clock.Step(6 * time.Minute) }, true},
		{"for longer than limits count", func(w *world) { w.restart(); w.clock.Step(2 * time.Hour) }, true},
		{"switched off", func(w *world) {
			switchOff(w, 0)
			w.step(15 * time.Second)
			w.clock.Step(6 * time.Minute)
			switchOff(w, 2)
		}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, func(o *v1alpha1.MultidimPodAutoscaler) { o.Spec.Recommender.Algorithm = "less" })
			w.options.JournalDir = t.TempDir()
			w.usage.cpu = "300m"
			require.Nil(t, w.step(0).Status.Recommendation)
			require.Nil(t, w.step(15*time.Second).Status.Recommendation)
			test.away(w)
			shrunk := 0
			for range 16 {
				if idle(w).Status.Recommendation != nil {
					shrunk++
				}
			}
			assert.Equal(t, test.held, shrunk == 0)
			for range 8 {
				idle(w)
			}
			assert.NotNil(t, w.read().Status.Recommendation)
			w.restart()
			v, err := journal.ReplayFile(filepath.Join(w.options.JournalDir, "shop", "web.mpa.jsonl"), nil)
			require.NoError(t, err)
			assert.Nil(t, v.First)
		})
	}
}

// A recommendation from before a time in mode Off is out of date: once the mode acts again,
// neither webhook nor updater sees it. Its id is not used again.
func TestOffForgetsTheLast(t *testing.T) {
	w := newWorld(t, restless)
	turn := func(mode v1alpha1.Mode) *v1alpha1.MultidimPodAutoscaler {
		o := w.read()
		o.Spec.Mode = mode
		o.Generation++
		require.NoError(t, w.Update(t.Context(), o))
		return w.reconcile()
	}
	require.Equal(t, int64(1), w.step(0).Status.Recommendation.ID)
	o := turn(v1alpha1.ModeOff)
	assert.Nil(t, o.Status.Recommendation)
	assert.Nil(t, w.step(15*time.Second).Status.Recommendation)
	w.usage.err = errors.New("down")
	assert.Nil(t, turn(v1alpha1.ModeInPlace).Status.Recommendation)
	w.usage.err = nil
	o = w.step(6 * time.Minute) // no pod waits for the first any more
	require.NotNil(t, o.Status.Recommendation)
	assert.Equal(t, int64(2), o.Status.Recommendation.ID)
}

// more wants one more replica each time.
type more struct{}

func (more) Recommend(o *mpa.Observation) mpa.Recommendation {
	return mpa.Recommendation{Replicas: o.Replicas + 1, Source: "more", Reason: "never enough"}
}

// swing wants one replica more and one less in turn: three more and three less may pass in an
// hour, and one more at the end.
type swing struct{}

func (swing) Recommend(o *mpa.Observation) mpa.Recommendation {
	return mpa.Recommendation{Replicas: o.Replicas ^ 1, Source: "swing", Reason: "never at rest"}
}

const mostSwings = 7

// less wants as many replicas as use all that they request.
type less struct{ agents.Static }

func (less) Recommend(o *mpa.Observation) mpa.Recommendation {
	r := mpa.Recommendation{Replicas: o.Replicas, Source: "less", Reason: "wished"}
	if len(o.Pods) > 0 && o.Pods[0].Containers[0].Usage.CPU < 100 {
		r.Replicas = 1
	}
	return r
}

func init() {
	agents.Register(agents.Kind{Name: "more", Rule: func(mpa.Target) mpa.Agent { return more{} }})
	agents.Register(agents.Kind{Name: "swing", Rule: func(mpa.Target) mpa.Agent { return swing{} }})
	agents.Register(agents.Kind{Name: "less", Rule: func(mpa.Target) mpa.Agent { return less{} }})
}

func restless(o *v1alpha1.MultidimPodAutoscaler) {
	o.Spec.Recommender.Algorithm, o.Spec.Constraints.Replicas.Max = "more", 1000
}

func swinging(o *v1alpha1.MultidimPodAutoscaler) {
	restless(o)
	o.Spec.Recommender.Algorithm = "swing"
}

// However writes fail, an id is used once, its content does not change, and no more changes
// are made than the guards allow, across restarts too.
func TestIDsOverFailedWrites(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		t.Run(fmt.Sprintf("journal=%t", dir != ""), func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			w := newWorld(t, swinging)
			w.options.JournalDir, w.options.JournalBytes = dir, 1<<30
			w.patch = func(next func() error) error {
				switch random.IntN(4) {
				case 0:
					return errors.New("lost before it arrived")
				case 1:
					_ = next()
					return errors.New("the answer was lost")
				default:
					return next()
				}
			}
			seen := map[int64]v1alpha1.Recommendation{}
			last := int64(0)
			for i := range 200 { // not quite an hour
				if random.IntN(20) == 0 {
					w.restart()
				}
				// The workload follows each recommendation.
				if r := w.read().Status.Recommendation; r != nil {
					d := &appsv1.Deployment{}
					require.NoError(t, w.Get(t.Context(), key, d))
					d.Spec.Replicas = &r.Replicas
					require.NoError(t, w.Update(t.Context(), d))
				}
				o := w.step(15 * time.Second)
				r := o.Status.Recommendation
				if r == nil {
					continue
				}
				if known, ok := seen[r.ID]; ok {
					require.Equal(t, known, *r, "step %d", i)
				}
				seen[r.ID] = *r
				require.GreaterOrEqual(t, r.ID, last)
				last = r.ID
			}
			assert.Greater(t, len(seen), 3)
			assert.LessOrEqual(t, len(seen), mostSwings, "within an hour")
		})
	}
}

// Two recommenders, run by mistake, keep the limits of one.
func TestTwoRecommenders(t *testing.T) {
	w := newWorld(t, swinging)
	both := []*reconciler{w.reconciler, {
		Client: w.Client, live: w.live, collector: w.collector, options: w.options, clock: w.clock, events: w.events, vpas: w.vpas,
		objects: map[types.NamespacedName]*object{}, of: map[string]int{}, full: map[string]time.Time{},
	}}
	request := ctrl.Request{NamespacedName: key}
	seen := map[int64]v1alpha1.Recommendation{}
	for range 440 { // not quite an hour
		w.clock.Step(8 * time.Second)
		w.usage.at = w.clock.Now()
		if r := w.read().Status.Recommendation; r != nil {
			d := &appsv1.Deployment{}
			require.NoError(t, w.Get(t.Context(), key, d))
			d.Spec.Replicas = &r.Replicas
			require.NoError(t, w.Update(t.Context(), d))
		}
		for _, r := range both {
			_, err := r.Reconcile(t.Context(), request)
			require.NoError(t, err)
			if r := w.read().Status.Recommendation; r != nil {
				if known, ok := seen[r.ID]; ok {
					require.Equal(t, known, *r)
				}
				seen[r.ID] = *r
			}
		}
	}
	assert.Len(t, seen, mostSwings)
}

// The status is written when it changes in more than numbers, and once a minute.
func TestQuietStatus(t *testing.T) {
	writes := 0
	w := newWorld(t)
	w.usage.cpu = "250m" // as wanted
	w.patch = func(next func() error) error { writes++; return next() }
	for range 40 {
		w.usage.memory = fmt.Sprintf("%dMi", 300+writes%3)
		w.step(15 * time.Second)
	}
	assert.InDelta(t, 10, writes, 2)
	w.usage.err = errors.New("down")
	before := writes
	w.step(15 * time.Second)
	assert.Equal(t, before+1, writes)
}

// The guards' memory outlives an edit of the object, but not its deletion.
func TestMemoryOverEdits(t *testing.T) {
	w := newWorld(t)
	require.NotNil(t, w.step(0).Status.Recommendation)
	o := w.read()
	o.Generation, o.Spec.Constraints.Replicas.Max = 2, 20
	require.NoError(t, w.Update(t.Context(), o))
	o = w.reconcile()
	assert.Equal(t, int64(2), o.Status.ObservedGeneration)
	assert.Len(t, o.Status.Memory.ReplicaChanges, 1)
	assert.Equal(t, int64(1), o.Status.Recommendation.ID)

	require.NoError(t, w.Delete(t.Context(), o))
	_, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(o)})
	require.NoError(t, err)
	assert.Empty(t, w.objects)
	again := web()
	again.UID = "another"
	require.NoError(t, w.Create(t.Context(), again))
	assert.Equal(t, int64(1), w.step(time.Minute).Status.Recommendation.ID)
}

// Requests that every pod was refused do not count against the hour: the seventh is
// recommended as well. Where pods took them, the hour's are used up; in mode Recreate, so that
// those of cpu alone count too.
func TestRefusedRequestsDoNotCount(t *testing.T) {
	for outcome, most := range map[v1alpha1.Outcome]int64{v1alpha1.OutcomeRefused: 9, v1alpha1.OutcomeApplied: 6} {
		w := newWorld(t, func(o *v1alpha1.MultidimPodAutoscaler) {
			o.Spec.Recommender.Algorithm, o.Spec.Mode = "vpa", v1alpha1.ModeRecreate
		})
		w.options.JournalDir = t.TempDir()
		w.usage.cpu = "900m"
		last := int64(0)
		for range 220 {
			o := w.step(15 * time.Second)
			r := o.Status.Recommendation
			if r == nil || r.ID == last {
				continue
			}
			require.Equal(t, v1alpha1.ChangeRequests, r.Change)
			last = r.ID
			o.Status.Actuation = &v1alpha1.Actuation{ID: r.ID, Outcome: outcome, Time: metav1.NewMicroTime(w.clock.Now())}
			require.NoError(t, w.Status().Update(t.Context(), o))
		}
		assert.GreaterOrEqual(t, last, most, outcome)
		assert.LessOrEqual(t, last, most+3, outcome)
		for _, s := range w.objects {
			s.journaled.close(t.Context())
		}
		files, err := filepath.Glob(filepath.Join(w.options.JournalDir, "shop", "*.jsonl"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		v, err := journal.ReplayFile(files[0], nil)
		require.NoError(t, err)
		require.Nil(t, v.First)
	}
}

// A journal replays to the decisions that it has, with their outcomes.
func TestJournal(t *testing.T) {
	w := newWorld(t)
	w.options.JournalDir, w.options.JournalBytes = t.TempDir(), 1<<30
	o := w.step(0)
	require.NotNil(t, o.Status.Recommendation)
	o.Status.Actuation = &v1alpha1.Actuation{ID: 1, Outcome: v1alpha1.OutcomeApplied, Time: metav1.NewMicroTime(w.clock.Now())}
	require.NoError(t, w.Status().Update(t.Context(), o))
	for i := range 20 {
		if i == 10 {
			w.restart()
		}
		w.step(15 * time.Second)
	}
	w.restart()
	path := filepath.Join(w.options.JournalDir, "shop", "web.mpa.jsonl")
	v, err := journal.ReplayFile(path, nil)
	require.NoError(t, err)
	require.Nil(t, v.First)
	assert.GreaterOrEqual(t, v.Decisions, 20)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(string(text), `"kind":"outcome"`))
	assert.Equal(t, 1, strings.Count(string(text), `"result":"Applied"`))

	// If the folder cannot be written to, no decision is made, and the status says why.
	w.options.JournalDir = path
	o = w.step(15 * time.Second)
	assert.Equal(t, "JournalFailed", o.Status.Summary)
}

func TestSpread(t *testing.T) {
	r := &reconciler{options: Options{Interval: 15 * time.Second}}
	slots := map[int]int{}
	for i := range 1500 {
		o := &v1alpha1.MultidimPodAutoscaler{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint("object ", i))}}
		next := r.slot(o, start)
		require.GreaterOrEqual(t, next.Sub(start), r.options.Interval/2)
		require.Less(t, next.Sub(start), 3*r.options.Interval/2)
		require.Equal(t, next.Add(r.options.Interval), r.slot(o, next))
		slots[next.Second()%15]++
	}
	for second, n := range slots {
		assert.InDelta(t, 100, n, 50, "second %d", second)
	}
}

func TestOptions(t *testing.T) {
	good := defaults()
	require.NoError(t, good.Validate())
	for want, change := range map[string]func(*Options){
		"--recommender-name is empty":  func(o *Options) { o.Name = "" },
		"--interval 1ms":               func(o *Options) { o.Interval = time.Millisecond },
		"--workers 0":                  func(o *Options) { o.Workers = 0 },
		"--cool-down -1s":              func(o *Options) { o.CoolDown = -time.Second },
		"--downscale-stabilisation 0s": func(o *Options) { o.Stabilisation = 0 },
		"--journal-bytes 5":            func(o *Options) { o.JournalBytes = 5 },
	} {
		bad := good
		change(&bad)
		require.ErrorContains(t, bad.Validate(), want)
	}
}
