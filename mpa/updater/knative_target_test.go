package updater

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/capacity"
	"github.com/sigma-scheduler/sigma/mpa/knative"
)

// measure is the recommender's part of the status.
func (s *knativeSite) measure(state *knative.State) {
	m := s.object()
	if m == nil {
		return
	}
	now, before := s.clock.Now(), m.Status.DeepCopy()
	m.Status.ObservedGeneration, m.Status.Phase = m.Generation, v1alpha1.PhaseRecommending
	if m.Status.Concurrency == nil {
		m.Status.Concurrency = &v1alpha1.ConcurrencyStatus{}
	}
	c := m.Status.Concurrency
	c.Windows, c.Limit = 5, int32(s.ours.Limit)
	c.RatePerPod = resource.NewMilliQuantity(int64(math.Round(1000*capacity.Headroom*s.rateLearned())), resource.DecimalSI)
	c.Demand = &v1alpha1.DurationRange{Value: metav1.Duration{Duration: 4 * time.Millisecond}}
	stable, canary := state.Stable, ""
	if r := s.ready(); state.Phase == knative.Canary && r != nil && r.name != state.Stable {
		canary = r.name
	}
	since := state.Since
	if revision, at := state.Measured(); revision != "" {
		stable, canary, since = revision, revision, at
	}
	switch {
	case canary == "":
		s.arms, c.Trial = nil, nil
	case s.arms[canary] == nil || s.arms[stable] == nil || s.since.Before(since):
		s.since = now
		s.arms = map[string]*v1alpha1.Arm{canary: {Revision: canary}, stable: {Revision: stable}}
	case !s.silent && s.lag == 0:
		c.Trial = &v1alpha1.Trial{Since: metav1.NewMicroTime(s.since), Time: metav1.NewMicroTime(now), Stable: *s.arms[stable], Canary: *s.arms[canary]}
	}
	if s.silent {
		c.Trial = nil
	}
	if !equality.Semantic.DeepEqual(before, &m.Status) {
		require.NoError(s.t, s.api.Status().Update(s.t.Context(), m))
	}
}

// rounded is a rate as a target has it.
func rounded(rate float64) float64 { return math.Round(100*rate) / 100 }

func (s *knativeSite) rateLearned() float64 {
	if s.learned > 0 {
		return s.learned
	}
	return s.ours.Rate
}

// revision reads a Revision; nil = it is not there.
func (s *knativeSite) revision(name string) *unstructured.Unstructured {
	u := knative.New(knative.RevisionKind)
	if err := s.api.Get(s.t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, u); err != nil {
		return nil
	}
	return u
}

const targetOf = "autoscaling.knative.dev/target"

// hasLearned reports whether a Revision that was made with something else has the target that was learned later.
func (s *knativeSite) hasLearned(name string) bool {
	if s.learned == 0 {
		return false
	}
	u := s.revision(name)
	return u != nil && u.GetAnnotations()[targetOf] == knative.Setting{Rate: s.learned}.Target()
}

// tried is what a Revision does with that.
func (s *knativeSite) tried(r *knativeRevision, n float64, arm *v1alpha1.Arm) {
	if s.hasLearned(r.name) {
		arm.Lost, arm.Late = s.lostTried*n, s.lateTried*(1-s.lostTried)*n
	}
}

// stage steps until a target is so far.
func (s *knativeSite) stage(is knative.Stage) {
	s.until(func() bool { g := s.state().Target; return g != nil && g.Stage == is })
}

// another lets another target be learned after a promotion, and steps until it is in one of the stages.
func (s *knativeSite) another(stages ...knative.Stage) {
	s.phase(knative.Promoted)
	s.learned, s.lateTried = rounded(s.ours.Rate*(1.2+s.random.Float64())), s.late
	s.stage(stages[s.random.IntN(len(stages))])
	s.steady(time.Duration(s.random.IntN(200)) * time.Second)
}

// asMade and asLearned check the Revision that serves.
func asMade(t *testing.T, s *knativeSite) {
	t.Helper()
	require.Equal(t, s.ready().f.Annotations[targetOf], s.revision(s.ready().name).GetAnnotations()[targetOf])
	require.Equal(t, 1, s.canaries, "there was no other Revision")
}

func asLearned(t *testing.T, s *knativeSite) {
	t.Helper()
	require.True(t, s.hasLearned(s.ready().name), "%+v", s.state().Target)
	require.Equal(t, knative.Kept, s.state().Target.Stage)
	require.Equal(t, 1, s.canaries, "there was no other Revision")
	require.Len(t, s.revisions, 2)
}

// targetFaults strike after a promotion, when another target was learned.
var targetFaults = []knativeFault{
	{name: "another target is learned", do: func(s *knativeSite) {
		s.another(anyStage...)
		s.stage(knative.Kept)
	}, phases: promoted, check: asLearned},
	{name: "another target is worse", do: func(s *knativeSite) {
		s.another(anyStage...)
		s.lateTried = .4 + .5*s.random.Float64()
		s.stage(knative.Back)
	}, phases: promoted, check: asMade},
	{name: "another target loses requests", do: func(s *knativeSite) {
		s.another(knative.Measuring)
		s.lostTried = .2 + .8*s.random.Float64()
		s.stage(knative.Back)
	}, phases: promoted, check: func(t *testing.T, s *knativeSite) {
		t.Helper()
		asMade(t, s)
		require.LessOrEqual(t, s.lostAll, s.rate*60*s.lostTried, "of a minute")
	}},
	{name: "killed after each write of a target", do: func(s *knativeSite) {
		s.phase(knative.Promoted)
		s.update = s.killed
		s.another(anyStage...)
		s.stage(knative.Kept)
	}, phases: promoted, check: asLearned},
	{name: "killed after each write of a target that is worse", do: func(s *knativeSite) {
		s.another(anyStage...)
		s.update = s.killed
		s.lateTried = .9
		s.stage(knative.Back)
	}, phases: promoted, check: asMade},
	{name: "killed between the Service and the Revision", do: func(s *knativeSite) {
		s.another(knative.Measuring)
		s.stage(knative.Writing)
		s.once(func(func() error) error {
			defer s.restart()
			return errors.New("killed before writing")
		})
		s.stage(knative.Kept)
	}, phases: promoted, check: asLearned},
	{name: "the API server is away for half an hour, and a target is under way", do: func(s *knativeSite) {
		s.another(anyStage...)
		s.away = true
		s.steady(30 * time.Minute)
		s.away = false
		s.until(func() bool { return s.state().Target.Stage == knative.Kept || s.state().Target.Stage == knative.Back })
		s.stage(knative.Kept) // of one that was not judged in time nothing is known; a second attempt is
	}, phases: promoted},
	{name: "a user edits the template, and a target is under way", do: func(s *knativeSite) {
		s.another(anyStage...)
		s.edit(image)
		s.stage(knative.Back)
		s.steady(2 * time.Minute)
		require.Equal(s.t, s.revisions[1].f.Annotations[targetOf], s.revision("web-00002").GetAnnotations()[targetOf])
		s.stage(knative.Kept) // of the new one
	}, phases: promoted, check: usersImage},
	{name: "a user sets the target of the Revision, and one is under way", do: func(s *knativeSite) {
		s.another(anyStage...)
		u := s.revision("web-00002")
		values := u.GetAnnotations()
		values[targetOf] = "7"
		u.SetAnnotations(values)
		require.NoError(s.t, s.api.Update(s.t.Context(), u))
		s.stage(knative.Back)
	}, phases: promoted, check: func(t *testing.T, s *knativeSite) {
		t.Helper()
		require.Equal(t, "7", s.revision("web-00002").GetAnnotations()[targetOf], "it stays")
	}},
	{name: "the mode is turned down, and a target is under way", do: func(s *knativeSite) {
		s.another(anyStage...)
		s.observe()
	}, phases: promoted, check: asMade},
	{name: "the mode is turned down, and a target was kept", do: func(s *knativeSite) {
		s.another(anyStage...)
		s.stage(knative.Kept)
		s.observe()
	}, phases: promoted, check: asMade},
	{name: "the object is deleted, and a target is under way", do: func(s *knativeSite) {
		s.another(anyStage...)
		deleteObject(s)
		s.steady(time.Minute)
	}, check: nothingOfTarget},
	{name: "the object is deleted while no updater runs, and a target was kept", do: func(s *knativeSite) {
		s.another(anyStage...)
		s.stage(knative.Kept)
		leaders := s.leaders
		s.leaders = nil
		deleteObject(s)
		s.steady(time.Minute)
		for range 10 {
			_, err := leaders[0].sweep(s.t.Context(), client.HasLabels{knative.Annotation})
			require.NoError(s.t, err)
			s.step()
		}
	}, check: nothingOfTarget},
	{name: "two lead, and a target is under way", do: func(s *knativeSite) {
		s.another(anyStage...)
		s.leaders = append(s.leaders, s.leader())
		s.once(func(next func() error) error {
			s.act(s.leaders[1])
			return next()
		})
		s.stage(knative.Kept)
	}, phases: promoted, check: asLearned},
	{name: "two lead, and one writes a target after the other has taken it back", do: func(s *knativeSite) {
		s.another(knative.Measuring)
		s.stage(knative.Writing)
		s.leaders = append(s.leaders, s.leader())
		s.once(func(next func() error) error {
			s.observe()
			require.Equal(s.t, knative.Back, s.state().Target.Stage)
			s.clock.Step(time.Minute)
			err := next()
			require.True(s.t, s.hasLearned("web-00002"), "the late write")
			return err
		})
		s.step()
	}, phases: promoted, check: asMade},
	{name: "Knative is away while a canary is taken back, and a target was kept", do: func(s *knativeSite) {
		s.another(anyStage...)
		s.stage(knative.Kept)
		s.steady(11 * time.Minute)
		s.learned, s.ours = 0, knative.Setting{Limit: 2 * s.ours.Limit, Rate: 2 * s.learned}
		s.phase(knative.Canary)
		for s.state().Phase == knative.Canary {
			s.clock.Step(knativeTick)
			s.act(s.leaders[0])
		}
		require.Equal(s.t, knative.Restoring, s.state().Phase)
	}, phases: []knative.Phase{knative.RolledBack}, check: func(t *testing.T, s *knativeSite) {
		t.Helper()
		require.Equal(t, knative.Kept, s.state().Target.Stage)
		require.NotEqual(t, s.ready().f.Annotations[targetOf], s.revision("web-00002").GetAnnotations()[targetOf])
	}},
	{name: "the recommender refuses the object, and a target was kept", do: func(s *knativeSite) {
		s.another(anyStage...)
		s.stage(knative.Kept)
		s.refusing(10 * time.Minute)
		require.Contains(s.t, s.object().Status.Knative.Reason, "the recommender refuses the object")
	}, phases: promoted, check: asLearned},
	{name: "the recommender refuses the object, and a target is under way", do: func(s *knativeSite) {
		s.another(anyStage...)
		s.refusing(time.Minute)
		require.Equal(s.t, knative.Back, s.state().Target.Stage)
	}, phases: promoted, check: asMade},
	{name: "the server refuses a target", do: func(s *knativeSite) {
		s.another(knative.Measuring)
		s.stage(knative.Writing)
		s.update = func(next func() error) error {
			if g := s.state().Target; g.Stage == knative.Writing && s.clock.Since(g.Since) < 10*time.Minute {
				return apierrors.NewForbidden(schema.GroupResource{Group: v1alpha1.Knative, Resource: "revisions"}, g.Revision, nil)
			}
			return next()
		}
		s.steady(time.Minute)
		require.Equal(s.t, "ServiceRefused", meta.FindStatusCondition(s.object().Status.Conditions, v1alpha1.ConditionAble).Reason)
		s.stage(knative.Back)
	}, phases: promoted, check: asMade},
}

// anyStage is one in which something may come between.
var anyStage = []knative.Stage{knative.Measuring, knative.Writing, knative.Trying}

var promoted = []knative.Phase{knative.Promoted}

// refusing lets the recommender refuse the object for a while.
func (s *knativeSite) refusing(d time.Duration) {
	for range d / knativeTick {
		s.clock.Step(knativeTick)
		m := s.object()
		m.Status.Phase = v1alpha1.PhaseRefused
		require.NoError(s.t, s.api.Status().Update(s.t.Context(), m))
		s.act(s.leaders[0])
	}
}

// killed ends an updater after each write.
func (s *knativeSite) killed(next func() error) error {
	err := next()
	defer s.restart()
	return errors.Join(err, errors.New("killed after writing"))
}

func (s *knativeSite) observe() {
	s.spec(func(m *v1alpha1.MultidimPodAutoscaler) { m.Spec.Concurrency.Mode = v1alpha1.ConcurrencyObserve })
	for range 3 {
		s.act(s.leaders[len(s.leaders)-1])
	}
}

func nothingOfTarget(t *testing.T, s *knativeSite) {
	t.Helper()
	nothingLeft(t, s)
	asMade(t, s)
}

// Another target comes to the Revision that serves, without a new one; the mode takes it back.
func TestKnativeTarget(t *testing.T) {
	s := newKnativeSite(t, seeded(2, 1))
	s.phase(knative.Promoted)
	s.learned = 60
	s.stage(knative.Measuring)
	s.steady(time.Minute)
	assert.Contains(t, s.object().Status.Knative.Summary, "target of web-00002: Revision web-00002 is measured before it gets the target 60")
	assert.False(t, s.hasLearned("web-00002"))
	s.stage(knative.Trying)
	assert.True(t, s.hasLearned("web-00002"))
	s.stage(knative.Kept)
	s.steady(15 * time.Minute)
	asLearned(t, s)
	assert.Equal(t, "40", read(t, s).Fields.Annotations[targetOf], "the template is as it was")
	assert.Equal(t, []string{"60"}, []string{s.object().Status.Knative.Target.String()})
	// And one more, after which the way back is to the first.
	s.learned = 80
	s.stage(knative.Trying)
	s.stage(knative.Kept)
	asLearned(t, s)
	s.spec(func(m *v1alpha1.MultidimPodAutoscaler) { m.Spec.Concurrency.Mode = v1alpha1.ConcurrencyObserve })
	s.steady(time.Minute)
	asMade(t, s)
	assert.Equal(t, knative.Back, s.state().Target.Stage)
	assert.Empty(t, s.problems)
}

// A target that is worse goes, and is not tried again; one that was kept before it returns.
func TestKnativeTargetWorse(t *testing.T) {
	onOneGoroutine(t)
	s := newKnativeSite(t, seeded(2, 2))
	s.phase(knative.Promoted)
	s.learned, s.lateTried = 60, .3
	s.stage(knative.Back)
	s.steady(15 * time.Minute)
	asMade(t, s)
	assert.Contains(t, s.object().Status.Knative.Reason, "8 at once and 60 requests/s a pod are not tried again: ")
	s.learned, s.lateTried = 50, .02
	s.stage(knative.Kept)
	s.learned, s.lostTried = 80, .2
	s.stage(knative.Trying)
	s.stage(knative.Kept)
	s.steady(time.Minute)
	assert.Equal(t, "50", s.revision("web-00002").GetAnnotations()[targetOf])
	assert.Len(t, s.state().Worse, 2)
	assert.Less(t, s.lostAll, s.rate*90*.2)
	// Another limit is a Revision, beside one that has the target.
	s.learned, s.lostTried, s.ours = 0, 0, knative.Setting{Limit: 20, Rate: 70}
	s.phase(knative.Canary)
	assert.Equal(t, "50", s.revision("web-00002").GetAnnotations()[targetOf])
	s.phase(knative.Promoted)
	s.steady(time.Minute)
	assert.Equal(t, "40", s.revision("web-00002").GetAnnotations()[targetOf], "it serves no more, and is as it was made")
	assert.Empty(t, s.problems)
}

// A copy of a Service has the annotation of the first, whose Revision is not its own.
func TestKnativeTargetCopied(t *testing.T) {
	onOneGoroutine(t)
	s := newKnativeSite(t, seeded(2, 1))
	s.phase(knative.Promoted)
	s.learned = 60
	s.stage(knative.Kept)
	twin := s.service()
	twin.SetName("copy")
	twin.SetResourceVersion("")
	for _, name := range []string{"latestReadyRevisionName", "latestCreatedRevisionName"} {
		require.NoError(t, unstructured.SetNestedField(twin.Object, "copy-00001", "status", name))
	}
	require.NoError(t, s.api.Create(t.Context(), twin))
	r := s.revision("web-00002")
	r.SetName("copy-00001")
	r.SetLabels(map[string]string{"serving.knative.dev/service": "copy"})
	r.SetResourceVersion("")
	require.NoError(t, s.api.Create(t.Context(), r))
	for range 10 {
		_, err := s.leaders[0].sweep(t.Context(), client.HasLabels{knative.Annotation})
		require.NoError(t, err)
		asLearned(t, s)
		s.step()
	}
	require.NoError(t, s.api.Get(t.Context(), client.ObjectKeyFromObject(twin), twin))
	assert.NotContains(t, twin.GetAnnotations(), knative.Annotation)
}

// The way back of a target does not wait for an older object of the same Service.
func TestKnativeTargetOlder(t *testing.T) {
	onOneGoroutine(t)
	s := newKnativeSite(t, seeded(2, 1))
	s.phase(knative.Promoted)
	s.learned = 60
	s.stage(knative.Kept)
	older := knativeWeb()
	older.Name, older.UID = "older", "older-uid"
	require.NoError(t, s.api.Create(t.Context(), older))
	require.True(t, v1alpha1.Older(older, s.object()))
	s.steady(15 * time.Minute)
	asLearned(t, s)
	assert.Equal(t, "OtherMPA", meta.FindStatusCondition(s.object().Status.Conditions, v1alpha1.ConditionAble).Reason)
	s.observe()
	asMade(t, s)
	assert.Equal(t, knative.Back, s.state().Target.Stage)
}

// Where there are too few requests to tell, nothing is wrong.
func TestKnativeTargetFewRequests(t *testing.T) {
	onOneGoroutine(t)
	s := newKnativeSite(t, seeded(2, 1))
	s.phase(knative.Promoted)
	s.learned = 60
	s.stage(knative.Measuring)
	s.rate = .01
	s.steady(62 * time.Minute)
	asMade(t, s)
	require.True(t, s.state().Target.Few, "%+v", s.state().Target)
	assert.Equal(t, "Normal KnativeTargetBack Service web: too few requests within 1h0m0s to tell", s.seenEvents[len(s.seenEvents)-1])
	s.steady(50 * time.Minute)
	assert.Equal(t, knative.Back, s.state().Target.Stage)
	assert.Equal(t, "the next one is tried after a pause of 1h0m0s", s.object().Status.Knative.Reason)
}
