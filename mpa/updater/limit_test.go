package updater

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// limitWorld has an object that lets limits be applied.
func limitWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, v1alpha1.ModeInPlaceOrRecreate)
	w.edit(func(m *v1alpha1.MultidimPodAutoscaler) {
		m.Spec.Concurrency = &v1alpha1.Concurrency{Mode: v1alpha1.ConcurrencyApply, Learner: "law+walk", Min: 1, Max: 310, Initial: 10}
	})
	return w
}

func (w *world) edit(change func(*v1alpha1.MultidimPodAutoscaler)) {
	w.t.Helper()
	m := w.object()
	change(m)
	require.NoError(w.t, w.api.Update(w.t.Context(), m))
}

func (w *world) recommendLimit(id int64, limit int32) {
	w.t.Helper()
	w.recommend(id, 2, "", func(r *v1alpha1.Recommendation) { r.Change, r.Limit = v1alpha1.ChangeLimit, limit })
}

// limits are those of the pods, by name; - = none.
func (w *world) limits() string {
	w.t.Helper()
	var all []string
	for _, p := range w.pods() {
		text := p.Annotations[v1alpha1.AnnotationLimit]
		if text == "" {
			text = "-"
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// annotate is a user's kubectl annotate; an empty limit removes it.
func (w *world) annotate(i int, limit string) {
	w.t.Helper()
	p := &corev1.Pod{}
	require.NoError(w.t, w.api.Get(w.t.Context(), client.ObjectKeyFromObject(pod(i)), p))
	if delete(p.Annotations, v1alpha1.AnnotationLimit); limit != "" {
		p.Annotations = map[string]string{v1alpha1.AnnotationLimit: limit}
	}
	require.NoError(w.t, w.api.Update(w.t.Context(), p))
	w.managed(p, "kubectl-annotate")
	if limit == "" {
		delete(w.managers, p.Name)
	}
}

// managed records who set the limit of a pod, as an API server does and this one does not.
func (w *world) managed(o client.Object, manager string) {
	if w.managers == nil {
		w.managers = map[string]metav1.ManagedFieldsEntry{}
	}
	w.managers[o.GetName()] = metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", Time: new(metav1.NewTime(w.clock.Now())),
		FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{".":{},"f:sigma-scheduler.io/concurrency":{}}}}`),
	}
}

func (w *world) said() string {
	var all []string
	for {
		select {
		case e := <-w.events.(*record.FakeRecorder).Events:
			all = append(all, e)
		default:
			return strings.Join(all, "\n")
		}
	}
}

// All pods get a limit, those that come later too, and each change is told.
func TestLimit(t *testing.T) {
	w := limitWorld(t)
	w.recommendLimit(1, 8)
	w.settle()
	w.settle()
	assert.Equal(t, "8 8", w.limits())
	assert.Equal(t, v1alpha1.OutcomeApplied, w.actuation().Outcome)
	assert.Equal(t, "none → 8 requests at once in 2 pods", w.actuation().Message)
	assert.Equal(t, "Normal LimitApplied recommendation 1: none → 8 requests at once in 2 pods", w.said())

	late := pod(2)
	late.UID = "late"
	require.NoError(t, w.api.Create(t.Context(), late))
	w.settle()
	assert.Equal(t, "8 8 8", w.limits())
	assert.EqualValues(t, 3, w.actuation().Limit.Pods)

	w.clock.Step(time.Minute)
	w.recommend(2, 3, "") // other changes leave it in force
	w.settle()
	require.NoError(t, w.api.Create(t.Context(), func() *corev1.Pod { p := pod(3); p.UID = "later"; return p }()))
	w.settle()
	assert.Equal(t, "8 8 8 8", w.limits())
	w.recommendLimit(3, 12)
	w.settle()
	assert.Equal(t, "12 12 12 12", w.limits())
	assert.Equal(t, "8 → 12 requests at once in 4 pods", w.actuation().Message)
}

// What may not be applied is refused with the field.
func TestLimitRefused(t *testing.T) {
	for name, test := range map[string]struct {
		limit int32
		edit  func(*v1alpha1.MultidimPodAutoscaler)
		want  string
	}{
		"only recommended": {8, func(m *v1alpha1.MultidimPodAutoscaler) { m.Spec.Concurrency.Mode = v1alpha1.ConcurrencyRecommend }, "spec.concurrency.mode is not Apply"},
		"not asked for":    {8, func(m *v1alpha1.MultidimPodAutoscaler) { m.Spec.Concurrency = nil }, "spec.concurrency.mode is not Apply"},
		"below":            {0, nil, "a limit of 0: want spec.concurrency.min 1 to max 310"},
		"above":            {311, nil, "a limit of 311: want spec.concurrency.min 1 to max 310"},
	} {
		t.Run(name, func(t *testing.T) {
			w := limitWorld(t)
			if test.edit != nil {
				w.edit(test.edit)
			}
			w.recommendLimit(1, test.limit)
			w.settle()
			assert.Equal(t, "- -", w.limits())
			assert.Equal(t, v1alpha1.OutcomeRefused, w.actuation().Outcome)
			assert.Equal(t, test.want, w.actuation().Message)
		})
	}
}

// Without the right to patch pods the API server's refusal is in the status, and sizes and
// replicas go on.
func TestLimitForbidden(t *testing.T) {
	w := limitWorld(t)
	w.around = func(call string, next func() error) error {
		if call == "limit" {
			return apierrors.NewForbidden(corev1.Resource("pods"), "web-1-0", errors.New("no right"))
		}
		return next()
	}
	w.recommendLimit(1, 8)
	w.settle()
	assert.Equal(t, v1alpha1.OutcomeRefused, w.actuation().Outcome)
	assert.Contains(t, w.actuation().Message, "no right")
	assert.Equal(t, "Refused", w.able())
	assert.Nil(t, w.actuation().Limit)
	w.recommend(2, 5, "")
	w.settle()
	assert.EqualValues(t, 5, w.replicas())
}

// A user who sets the limit ends ours; the status says so, and nothing is written until the
// mode has been another one.
func TestUserSetsTheLimit(t *testing.T) {
	template := func(w *world) {
		d := &appsv1.Deployment{}
		require.NoError(t, w.api.Get(t.Context(), key, d))
		d.Spec.Template.Annotations = map[string]string{v1alpha1.AnnotationLimit: "5"}
		require.NoError(t, w.api.Update(t.Context(), d))
	}
	// restart is kubectl rollout restart, and what the workload's controller does after it.
	restart := func(w *world) {
		d := &appsv1.Deployment{}
		require.NoError(t, w.api.Get(t.Context(), key, d))
		d.Spec.Template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}
		require.NoError(t, w.api.Update(t.Context(), d))
		for i := range 2 {
			require.NoError(t, w.api.Delete(t.Context(), pod(i)))
			p := pod(i)
			p.UID, p.Annotations = types.UID(p.Name+"-again"), map[string]string{"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}
			require.NoError(t, w.api.Create(t.Context(), p))
			delete(w.managers, p.Name)
		}
	}
	for name, test := range map[string]struct {
		do   func(*world)
		left string
		why  string
	}{
		"a rollout is no edit": {restart, "9 9", ""},
		"another number":       {func(w *world) { w.annotate(1, "30") }, "8 30", `pod web-1-1: kubectl-annotate set the annotation sigma-scheduler.io/concurrency to "30"`},
		"the number before":    {func(w *world) { w.annotate(0, "20") }, "20 8", `pod web-1-0: kubectl-annotate set the annotation sigma-scheduler.io/concurrency to "20"`},
		"no number":            {func(w *world) { w.annotate(0, "") }, "- 8", "pod web-1-0: somebody removed the annotation sigma-scheduler.io/concurrency"},
		"after a restart":      {func(w *world) { w.annotate(1, "30"); w.restart() }, "8 30", `pod web-1-1: kubectl-annotate set`},
		"in the template":      {template, "8 8", `the template's annotation sigma-scheduler.io/concurrency was changed from "" to "5"`},
		"a restart is no edit": {func(w *world) { w.restart() }, "9 9", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := limitWorld(t)
			w.recommendLimit(1, 20)
			w.settle()
			w.clock.Step(2 * time.Minute)
			w.recommendLimit(2, 8)
			w.settle()
			w.settle() // the pods' events
			require.Equal(t, "8 8", w.limits())
			w.said()
			w.clock.Step(2 * time.Minute)
			test.do(w)
			w.settle()
			w.recommendLimit(3, 9)
			w.settle()
			assert.Equal(t, test.left, w.limits())
			w.settle()
			assert.LessOrEqual(t, len(w.updater.objects[key].limited), 2, "pods that are gone are forgotten")
			if test.why == "" {
				assert.Empty(t, w.actuation().Limit.Ended)
				return
			}
			assert.Contains(t, w.actuation().Limit.Ended, test.why)
			assert.Contains(t, w.actuation().Message, test.why)
			assert.Contains(t, w.said(), "Warning LimitEnded "+test.why)

			// The way back: the values that are there are no edits then.
			mode := func(to v1alpha1.ConcurrencyMode) {
				w.edit(func(m *v1alpha1.MultidimPodAutoscaler) { m.Spec.Concurrency.Mode = to })
				w.settle()
			}
			mode(v1alpha1.ConcurrencyObserve)
			assert.Nil(t, w.actuation().Limit)
			assert.Equal(t, test.left, w.limits(), "no limit is taken away")
			mode(v1alpha1.ConcurrencyApply)
			w.clock.Step(2 * time.Minute)
			w.recommendLimit(4, 9)
			w.settle()
			assert.Equal(t, "9 9", w.limits())
		})
	}
}

// An edit that comes between reading a pod and writing it is not overwritten.
func TestUserIsFaster(t *testing.T) {
	w := limitWorld(t)
	w.recommendLimit(1, 20)
	w.settle()
	w.clock.Step(time.Minute)
	w.recommendLimit(2, 8)
	once := false
	w.around = func(call string, next func() error) error {
		if call == "limit" && !once {
			once = true
			w.annotate(0, "30")
		}
		return next()
	}
	w.settle()
	w.settle()
	assert.True(t, strings.HasPrefix(w.limits(), "30 "), w.limits())
	assert.Contains(t, w.actuation().Limit.Ended, "kubectl-annotate")
}

// An updater that is killed before or after any of its writes leaves a state from which the
// next one reaches the same end; and of two updaters one begins.
func TestLimitKilledAnywhere(t *testing.T) {
	type died struct{}
	run := func(t *testing.T, at int, after bool) (w *world, calls int) {
		w = limitWorld(t)
		for id, limit := range []int32{20, 12} { // what is ours is no edit for another process
			w.recommendLimit(int64(id+1), limit)
			w.settle()
			w.clock.Step(2 * time.Minute)
		}
		w.recommendLimit(3, 8)
		w.around = func(_ string, next func() error) error {
			calls++
			if calls-1 == at && !after {
				panic(died{})
			}
			err := next()
			if calls-1 == at {
				panic(died{})
			}
			return err
		}
		func() {
			defer func() {
				if p := recover(); p != nil {
					require.Equal(t, died{}, p)
				}
			}()
			w.settle()
		}()
		if calls > at && at >= 0 {
			w.restart()
			w.settle()
		}
		return w, calls
	}
	_, n := run(t, -1, false)
	require.Equal(t, 4, n, "begun, two pods, applied")
	for at := range n {
		for _, after := range []bool{false, true} {
			w, _ := run(t, at, after)
			assert.Equal(t, "8 8", w.limits(), "killed at %d, after it: %v", at, after)
			assert.Equal(t, v1alpha1.OutcomeApplied, w.actuation().Outcome)
			assert.Empty(t, w.actuation().Limit.Ended)
		}
	}

	w := limitWorld(t)
	w.recommendLimit(1, 8)
	other := *w
	other.restart()
	w.settle()
	other.settle()
	w.recommendLimit(2, 9)
	other.settle()
	w.settle()
	assert.Equal(t, "9 9", w.limits())
	assert.Empty(t, w.actuation().Limit.Ended, "another updater is no user")
	assert.Equal(t, []string{"limit", "limit", "limit", "limit"}, append(w.changes, other.changes...)[:4])
}

// What a pod was made with is no edit, whichever program made it: on k3s, MicroK8s and others it
// is not kube-controller-manager. Who sets a limit later ends ours, whatever its name.
func TestWhoMadeThePod(t *testing.T) {
	for _, manager := range []string{"kube-controller-manager", "k3s", "kubelite"} {
		for name, test := range map[string]struct {
			made  string        // limit of the pod that comes an hour later
			after time.Duration // from its creation until somebody set it
			want  string
			why   string
		}{
			"by the template":           {"8", 0, "4 4 4", ""},
			"by a webhook":              {"6", time.Second, "4 4 4", ""},
			"by the template, touched":  {"8", time.Hour, "4 4 4", ""},
			"set a minute after it was": {"6", time.Minute, "4 4 6", "pod web-1-5: " + manager + ` set the annotation sigma-scheduler.io/concurrency to "6"`},
		} {
			w := limitWorld(t)
			d := deployment(2)
			d.Spec.Template.Annotations = map[string]string{v1alpha1.AnnotationLimit: "8"}
			require.NoError(t, w.api.Update(t.Context(), d))
			for i := range 2 {
				w.annotate(i, "8")
			}
			w.recommendLimit(1, 4)
			w.settle()
			w.clock.Step(time.Hour)
			p := pod(5)
			p.Annotations, p.CreationTimestamp = map[string]string{v1alpha1.AnnotationLimit: test.made}, metav1.NewTime(w.clock.Now())
			require.NoError(t, w.api.Create(t.Context(), p))
			w.clock.Step(test.after)
			w.managed(p, manager)
			w.settle()
			assert.Equal(t, test.want, w.limits(), "%s, %s", manager, name)
			assert.Equal(t, test.why, w.actuation().Limit.Ended, "%s, %s", manager, name)
		}
	}
}
