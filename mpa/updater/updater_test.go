package updater

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// TestIgnoredNamespaces: nothing is carried out, and nothing written, in the namespaces of the
// cluster's components and of the autoscaler.
func TestIgnoredNamespaces(t *testing.T) {
	w := newWorld(t, v1alpha1.ModeInPlaceOrRecreate)
	w.recommend(1, 5, "")
	w.Namespace = "shop"
	w.settle()
	assert.Empty(t, w.changes)
	assert.Nil(t, w.object().Status.Actuation)
	system := w.object()
	system.Namespace, system.ResourceVersion = "kube-system", ""
	require.NoError(t, w.api.Create(t.Context(), system))
	_, err := w.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(system)})
	require.NoError(t, err)
	require.NoError(t, w.api.Get(t.Context(), client.ObjectKeyFromObject(system), system))
	assert.Nil(t, system.Status.Actuation)
	assert.Empty(t, w.objects)
	w.Namespace = ""
	w.settle()
	assert.EqualValues(t, 5, w.replicas(), "the same recommendation, elsewhere")
}

// An updater that is killed before or after any of its writes leaves a state from which the
// next one reaches the same end, with everything done once.
func TestKilledAnywhere(t *testing.T) {
	type died struct{}
	for _, change := range []string{"replicas", "requests", "eviction"} {
		script := func(w *world) {
			switch change {
			case "replicas":
				w.recommend(1, 5, "")
			case "requests", "eviction":
				w.recommend(1, 2, "300m")
			}
		}
		run := func(t *testing.T, at int, after bool) (*world, int) {
			w := newWorld(t, v1alpha1.ModeInPlaceOrRecreate)
			calls := 0
			w.around = func(_ string, next func() error) error {
				calls++
				if calls == at && !after {
					panic(died{})
				}
				err := next()
				if calls == at && after {
					panic(died{})
				}
				return err
			}
			live := func() {
				defer func() {
					if p := recover(); p != nil {
						require.Equal(t, died{}, p)
						w.restart()
					}
				}()
				w.settle()
			}
			script(w)
			for range 3 {
				live()
			}
			if change == "eviction" {
				w.kubelet(corev1.PodReasonInfeasible)
				live()
				live()
			} else {
				w.kubelet("")
			}
			live()
			live()
			return w, calls
		}
		whole, calls := run(t, 0, false)
		want := whole.actuation()
		require.GreaterOrEqual(t, calls, 3, change)
		for at := 1; at <= calls; at++ {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/%v", change, at, after), func(t *testing.T) {
					w, _ := run(t, at, after)
					got := w.actuation()
					assert.Equal(t, whole.changes, w.changes)
					assert.Equal(t, want.Outcome, got.Outcome)
					assert.Len(t, got.Scalings, len(want.Scalings))
					assert.Len(t, got.Resizes, len(want.Resizes))
					assert.Equal(t, whole.replicas(), w.replicas())
					if change == "eviction" { // counted before it is done
						assert.GreaterOrEqual(t, got.Evicted, want.Evicted)
					}
				})
			}
		}
	}
}

// What is refused, with the reason in the status.
func TestRefuses(t *testing.T) {
	at := func(d time.Duration) func(*v1alpha1.Recommendation) {
		return func(r *v1alpha1.Recommendation) { r.Time = metav1.NewMicroTime(start.Add(d)) }
	}
	create := func(o client.Object) func(*world) {
		return func(w *world) { require.NoError(w.t, w.api.Create(w.t.Context(), o)) }
	}
	scale := func(n int32) func(*world) {
		return func(w *world) { require.NoError(w.t, w.api.Update(w.t.Context(), deployment(n))) }
	}
	hpa := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "other"}}
	hpa.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	other := hpa.DeepCopy()
	other.Spec.ScaleTargetRef.Name = "shop"
	older := web(v1alpha1.ModeInPlace)
	older.Name, older.UID = "a", "mpa2"
	younger := older.DeepCopy()
	younger.CreationTimestamp = metav1.NewTime(start.Add(time.Hour))
	off := older.DeepCopy()
	off.Spec.Mode = v1alpha1.ModeOff
	for _, c := range []struct {
		name     string
		prepare  func(*world)
		edit     func(*v1alpha1.Recommendation)
		outcome  v1alpha1.Outcome
		able     string
		replicas int32
	}{
		{name: "nothing against it", outcome: v1alpha1.OutcomeApplied, able: "Applied", replicas: 5},
		{name: "just young enough", edit: at(-2 * time.Minute), outcome: v1alpha1.OutcomeApplied, able: "Applied", replicas: 5},
		{name: "too old", edit: at(-2*time.Minute - 1), outcome: v1alpha1.OutcomeExpired, able: "Expired", replicas: 2},
		{name: "a clock a little ahead", edit: at(time.Minute), outcome: v1alpha1.OutcomeApplied, able: "Applied", replicas: 5},
		{name: "of tomorrow", edit: at(24 * time.Hour), outcome: v1alpha1.OutcomeRefused, able: "Refused", replicas: 2},
		{name: "of other replicas", edit: func(r *v1alpha1.Recommendation) { r.From = 3 }, outcome: v1alpha1.OutcomeSuperseded, able: "Superseded", replicas: 2},
		{name: "from these", edit: func(r *v1alpha1.Recommendation) { r.From = 2 }, outcome: v1alpha1.OutcomeApplied, able: "Applied", replicas: 5},
		{name: "above max", edit: func(r *v1alpha1.Recommendation) { r.Replicas = 1 << 30 }, outcome: v1alpha1.OutcomeApplied, able: "Applied", replicas: 10},
		{name: "zero", edit: func(r *v1alpha1.Recommendation) { r.Replicas = 0 }, outcome: v1alpha1.OutcomeRefused, able: "Refused", replicas: 2},
		{name: "an HPA", prepare: create(hpa), outcome: v1alpha1.OutcomeRefused, able: "OtherAutoscaler", replicas: 2},
		{name: "an HPA of something else", prepare: create(other), outcome: v1alpha1.OutcomeApplied, able: "Applied", replicas: 5},
		{name: "a younger MPA", prepare: create(younger), outcome: v1alpha1.OutcomeApplied, able: "Applied", replicas: 5},
		{name: "an older MPA", prepare: create(older), outcome: v1alpha1.OutcomeRefused, able: "OtherAutoscaler", replicas: 2},
		{name: "another MPA that is off", prepare: create(off), outcome: v1alpha1.OutcomeApplied, able: "Applied", replicas: 5},
		{name: "switched off", prepare: scale(0), outcome: v1alpha1.OutcomeRefused, able: "SwitchedOff", replicas: 0},
		{name: "refused by the recommender", prepare: func(w *world) {
			m := w.object()
			m.Status.Phase = v1alpha1.PhaseRefused
			require.NoError(w.t, w.api.Status().Update(w.t.Context(), m))
		}, outcome: v1alpha1.OutcomeRefused, able: "RecommenderRefused", replicas: 2},
		{name: "failing pods", prepare: func(w *world) {
			d := deployment(2)
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "exceeded quota"}}
			require.NoError(w.t, w.api.Status().Update(w.t.Context(), d))
		}, outcome: v1alpha1.OutcomeApplied, able: "FailedCreate", replicas: 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, v1alpha1.ModeInPlace)
			if c.prepare != nil {
				c.prepare(w)
			}
			edit := func(*v1alpha1.Recommendation) {}
			if c.edit != nil {
				edit = c.edit
			}
			w.recommend(1, 5, "", edit)
			w.settle()
			assert.Equal(t, c.outcome, w.actuation().Outcome, w.actuation().Message)
			assert.Equal(t, c.able, w.able())
			assert.Equal(t, c.replicas, w.replicas())
			w.settle()
			assert.LessOrEqual(t, len(w.changes), 1, "once")
		})
	}
}

func TestModes(t *testing.T) {
	for _, c := range []struct {
		mode v1alpha1.Mode
		want []string
	}{
		{v1alpha1.ModeOff, nil},
		{v1alpha1.ModeInitial, []string{"scale"}},
		{v1alpha1.ModeInPlace, []string{"scale", "resize", "resize"}},
		{v1alpha1.ModeInPlaceOrRecreate, []string{"scale", "resize", "resize", "eviction"}},
		{v1alpha1.ModeRecreate, []string{"scale", "eviction"}},
	} {
		t.Run(string(c.mode), func(t *testing.T) {
			w := newWorld(t, c.mode)
			w.recommend(1, 3, "")
			w.settle()
			require.NoError(t, w.api.Update(t.Context(), deployment(2)))
			w.recommend(2, 2, "300m")
			w.settle()
			for range 3 { // a node that cannot resize for hours
				w.kubelet(corev1.PodReasonInfeasible)
				w.clock.Step(time.Hour)
				w.settle()
			}
			assert.Equal(t, c.want, w.changes)
			if c.mode == v1alpha1.ModeOff {
				assert.Nil(t, w.object().Status.Actuation)
			}
		})
	}
}

// Replicas shrink at most twelve times in any hour, and requests six times, whatever is
// recommended, whatever restarts, and whatever the recommender's clock shows.
func TestLimits(t *testing.T) {
	for _, skew := range []time.Duration{0, 2 * time.Minute, -2 * time.Minute, time.Hour} {
		t.Run(skew.String(), func(t *testing.T) {
			if skew != 0 {
				onOneGoroutine(t)
			}
			w := newWorld(t, v1alpha1.ModeInPlace)
			type change struct {
				at   time.Duration
				kind string
			}
			var made []change
			for i := range int64(45) { // an hour and a half
				before, replicas := len(w.changes), w.replicas()
				tilt := func(r *v1alpha1.Recommendation) {
					if i%7 > 2 {
						r.Time = metav1.NewMicroTime(w.clock.Now().Add(skew))
					}
				}
				if i%2 == 0 {
					w.recommend(i+1, 2+int32(i%3), "", tilt)
				} else {
					w.recommend(i+1, 2, fmt.Sprintf("%dm", 400-i), tilt)
				}
				w.settle()
				w.kubelet("")
				w.settle()
				if len(w.changes) > before && (i%2 == 1 || w.replicas() < replicas) {
					made = append(made, change{w.clock.Now().Sub(start), w.changes[before]})
				}
				if i%10 == 9 {
					w.restart()
				}
				w.clock.Step(2 * time.Minute)
			}
			for i := range made {
				n := 0
				for _, later := range made[i:] {
					// A recommendation counts from its decision, of at most two minutes before.
					if later.kind == made[i].kind && later.at <= made[i].at+time.Hour-2*time.Minute {
						n++
					}
				}
				require.LessOrEqual(t, n, map[string]int{"scale": 12, "resize": 6}[made[i].kind], made)
			}
			require.GreaterOrEqual(t, len(made), 10)
		})
	}
}

// TestBoundBelowUse: a bound that is lowered below the memory in use does not take it away.
func TestBoundBelowUse(t *testing.T) {
	for _, c := range []struct{ peak, want string }{{"400Mi", "480Mi"}, {"100Mi", "256Mi"}, {"", "256Mi"}} {
		w := newWorld(t, v1alpha1.ModeInPlace)
		m := w.object()
		bound := resource.MustParse("256Mi")
		m.Spec.Constraints.Containers[0].MaxAllowed.Memory = &bound
		require.NoError(t, w.api.Update(t.Context(), m))
		if c.peak != "" {
			m.Status.Memory = &v1alpha1.Memory{Containers: []v1alpha1.ContainerMemory{{
				Name: "web", Peaks: []v1alpha1.Peak{{Memory: resource.MustParse(c.peak)}, {Memory: resource.MustParse("1Mi")}},
			}}}
			require.NoError(t, w.api.Status().Update(t.Context(), m))
		}
		w.recommend(1, 2, "500m", func(r *v1alpha1.Recommendation) {
			memory := resource.MustParse("480Mi") // what the recommender's guard leaves of 512Mi
			r.Containers[0].Memory = &memory
		})
		w.settle()
		require.Equal(t, c.want, w.pods()[0].Spec.Containers[0].Resources.Requests.Memory().String(), c.peak)
	}
}

// TestClockSetBack: what was counted before the clock was set back counts for an hour from then.
func TestClockSetBack(t *testing.T) {
	w := newWorld(t, v1alpha1.ModeInPlace)
	for i := range int64(12) {
		w.recommend(i+1, 3+int32(i%2), "")
		w.settle()
		w.clock.Step(time.Minute)
	}
	require.Len(t, w.actuation().Scalings, 12)
	w.clock.SetTime(start.Add(-24 * time.Hour))
	w.recommend(13, 2, "")
	w.settle()
	require.Equal(t, v1alpha1.OutcomeRefused, w.actuation().Outcome, "the limit holds")
	w.clock.Step(61 * time.Minute)
	w.recommend(14, 2, "")
	w.settle()
	require.Equal(t, v1alpha1.OutcomeApplied, w.actuation().Outcome, w.actuation().Message)
	require.Equal(t, int32(2), w.replicas())
}

// TestGrowthBeyondTheHour: after an hour's changes a workload grows and does not shrink.
func TestGrowthBeyondTheHour(t *testing.T) {
	w := newWorld(t, v1alpha1.ModeInPlace)
	id := int64(0)
	do := func(replicas int32, cpu string) v1alpha1.Outcome {
		id++
		w.recommend(id, replicas, cpu)
		w.settle()
		w.kubelet("")
		w.settle()
		w.clock.Step(time.Minute)
		return w.actuation().Outcome
	}
	for i := range int32(12) {
		require.Equal(t, v1alpha1.OutcomeApplied, do(3+i%2, ""))
	}
	require.Equal(t, v1alpha1.OutcomeApplied, do(6, ""))
	require.Equal(t, v1alpha1.OutcomeRefused, do(5, ""))
	for _, cpu := range []string{"300m", "400m", "300m", "400m", "300m", "400m"} {
		require.Equal(t, v1alpha1.OutcomeApplied, do(6, cpu))
	}
	require.Equal(t, v1alpha1.OutcomeApplied, do(6, "500m"))
	require.Equal(t, v1alpha1.OutcomeRefused, do(6, "400m"))
	require.Equal(t, v1alpha1.OutcomeApplied, do(6, "600m"), "a refusal is no size in force")
}

// TestOffForgets: the pods of an object that was switched off are not waited for.
func TestOffForgets(t *testing.T) {
	w := newWorld(t, v1alpha1.ModeInPlace)
	w.recommend(1, 2, "300m")
	w.settle()
	w.kubelet(corev1.PodReasonDeferred)
	w.settle()
	require.NotZero(t, testutil.CollectAndCount(w.metrics.pods))
	o := w.object()
	o.Spec.Mode = v1alpha1.ModeOff
	require.NoError(t, w.api.Update(t.Context(), o))
	w.settle()
	require.Zero(t, testutil.CollectAndCount(w.metrics.pods))
	o = w.object()
	o.Spec.Mode = v1alpha1.ModeInPlace
	require.NoError(t, w.api.Update(t.Context(), o))
	w.settle()
	require.Len(t, w.actuation().Resizes, 1, "nothing is counted again")
}

// Sizes from before a time in mode Off do not come back: nothing checked them against the
// usage since.
func TestOffEndsSizes(t *testing.T) {
	for _, restart := range []bool{false, true} {
		w := newWorld(t, v1alpha1.ModeInPlace)
		w.recommend(1, 2, "300m")
		w.settle()
		w.kubelet("")
		w.settle()
		require.Equal(t, v1alpha1.OutcomeApplied, w.actuation().Outcome)
		turn := func(mode v1alpha1.Mode) {
			o := w.object()
			o.Spec.Mode = mode
			require.NoError(t, w.api.Update(t.Context(), o))
			w.settle()
		}
		if restart {
			w.restart()
		}
		turn(v1alpha1.ModeOff)
		require.Nil(t, w.actuation().Sizes)
		require.Nil(t, meta.FindStatusCondition(w.object().Status.Conditions, v1alpha1.ConditionAble), "of a mode that acted")
		require.Equal(t, v1alpha1.OutcomeApplied, w.actuation().Outcome)
		// Its pods are created again from the template.
		for i, p := range w.pods() {
			require.NoError(t, w.api.Delete(t.Context(), &p))
			require.NoError(t, w.api.Create(t.Context(), pod(i)))
		}
		w.changes = nil
		turn(v1alpha1.ModeInPlace)
		require.Empty(t, w.changes)
		w.recommend(2, 2, "400m")
		w.settle()
		require.Equal(t, []string{"resize", "resize"}, w.changes)
	}
}

// A recommendation that is rewritten under the same id changes nothing.
func TestSameID(t *testing.T) {
	w := newWorld(t, v1alpha1.ModeInPlace)
	w.recommend(1, 2, "300m")
	w.settle()
	w.kubelet("")
	w.settle()
	for i := range 10 {
		w.recommend(1, 2, fmt.Sprintf("%dm", 400+10*i))
		w.settle()
	}
	require.Len(t, w.changes, 2)
	w.recommend(2, 4, "")
	w.settle()
	for i := range int32(10) {
		w.recommend(2, 3+i%4, "")
		w.settle()
	}
	require.Len(t, w.changes, 3)
	require.EqualValues(t, 4, w.replicas())
}
