package recommender

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/journal"
)

// beginsIn is an object whose policy begins in a phase; "" = the default.
func beginsIn(phase string) func(*v1alpha1.MultidimPodAutoscaler) {
	return func(o *v1alpha1.MultidimPodAutoscaler) {
		learns(o)
		o.Spec.Recommender.Learning = &v1alpha1.Learning{Begin: phase, Window: &metav1.Duration{Duration: time.Hour}}
		if phase == "" {
			o.Spec.Recommender.Learning = nil
		}
	}
}

// acting is the agent that acts in a phase, and the one beside it.
func acting(phase string) (acts, shadow string) {
	if phase == "OfflineTraining" {
		return "hpa+vpa", "learned"
	}
	return "learned", "hpa+vpa"
}

func requirePhase(t *testing.T, o *v1alpha1.MultidimPodAutoscaler, phase string) {
	t.Helper()
	acts, shadow := acting(phase)
	require.NotNil(t, o.Status.Learning)
	require.Equal(t, phase, o.Status.Learning.Phase)
	require.Equal(t, acts, o.Status.Decision.Source)
	require.Equal(t, shadow, o.Status.Learning.Shadow.Source)
	require.NotEmpty(t, o.Status.Learning.Shadow.Reason)
	require.Equal(t, o.Status.Decision.PolicyDigest, o.Status.Learning.PolicyDigest)
}

// A recommender that is killed in a phase goes on in it, since the same time: from the journal,
// and from the status where there is none.
func TestKilledInEachPhase(t *testing.T) {
	for _, journaled := range []bool{true, false} {
		for _, phase := range []string{"OfflineTraining", "OnlineTraining", "Serving"} {
			w := newWorld(t, beginsIn("")) // by default in the shadow
			if journaled {
				w.options.JournalDir = t.TempDir()
			}
			require.NoError(t, w.Create(t.Context(), general("a")))
			w.step(15 * time.Second)
			requirePhase(t, w.read(), "OfflineTraining")
			s := w.objects[key]
			p := *s.journaled.progress()
			if phase != "OfflineTraining" { // as verdicts would
				p.Phase, p.Changes = mpa.LearningPhase(phase), 3
			}
			require.NoError(t, s.journaled.session.Place(p))
			before := w.step(15 * time.Second)
			requirePhase(t, before, phase)
			for range 3 {
				w.restart()
				after := w.step(15 * time.Second)
				requirePhase(t, after, phase)
				assert.Equal(t, before.Status.Learning.Since.UnixMicro(), after.Status.Learning.Since.UnixMicro())
				assert.Equal(t, before.Status.Learning.Changes, after.Status.Learning.Changes)
			}
		}
	}
}

// A policy that is deleted or replaced by one that is not accepted goes back to the shadow
// unless it is serving; the next one begins there.
func TestPolicyGoneInEachPhase(t *testing.T) {
	for phase, want := range map[string]string{"OfflineTraining": "OfflineTraining", "OnlineTraining": "OfflineTraining", "Serving": "Serving"} {
		for name, remove := range map[string]func(w *world){
			"PolicyMissing": func(w *world) { require.NoError(t, w.Delete(t.Context(), general("a"))) },
			"PolicyInvalid": func(w *world) {
				w.edit(func(p *v1alpha1.ScalingPolicy) { p.Spec.Numbers["kappa"] = 9 })
			},
		} {
			w := newWorld(t, beginsIn(phase))
			w.options.JournalDir = t.TempDir()
			require.NoError(t, w.Create(t.Context(), general("a")))
			w.step(15 * time.Second)
			requirePhase(t, w.read(), phase)
			remove(w)
			o := w.step(15 * time.Second)
			requirePhase(t, o, want)
			assert.Equal(t, name, condition(&o.Status, v1alpha1.ConditionAccepted).Reason)
			assert.Equal(t, metav1.ConditionFalse, condition(&o.Status, v1alpha1.ConditionFallback).Status)
			digest := o.Status.Learning.PolicyDigest
			weights := w.objects[key].learned.weights
			v, err := journal.ReplayFile(filepath.Join(w.options.JournalDir, "shop", "web.mpa.jsonl"), weights)
			require.NoError(t, err)
			require.Nil(t, v.First)
			if name == "PolicyMissing" {
				require.NoError(t, w.Create(t.Context(), general("b")))
			}
			w.edit(func(p *v1alpha1.ScalingPolicy) { p.Spec.Numbers["kappa"] = .9 })
			o = w.step(15 * time.Second)
			requirePhase(t, o, phase) // where the object says that new ones begin
			assert.NotEqual(t, digest, o.Status.Learning.PolicyDigest)
			assert.Zero(t, o.Status.Learning.Changes)
		}
	}
}

// Of two recommenders the one that is behind takes the phase from the status.
func TestTwoLeaders(t *testing.T) {
	w := newWorld(t, beginsIn(""))
	require.NoError(t, w.Create(t.Context(), general("a")))
	w.step(15 * time.Second)
	first := w.objects
	w.restart() // the other one
	w.step(15 * time.Second)
	second := w.objects
	p := *second[key].journaled.progress()
	p.Phase, p.Changes = "OnlineTraining", 1
	require.NoError(t, second[key].journaled.session.Place(p))
	requirePhase(t, w.step(15*time.Second), "OnlineTraining")
	w.objects = map[types.NamespacedName]*object{key: {uid: "mpa", learned: learnedPolicy{weights: first[key].learned.weights}}} // behind, without a session
	requirePhase(t, w.step(15*time.Second), "OnlineTraining")
	behind := *w.objects[key].journaled.progress()
	behind.Phase, behind.Changes = "OfflineTraining", 0
	require.NoError(t, w.objects[key].journaled.session.Place(behind))
	o := w.step(15 * time.Second)
	requirePhase(t, o, "OnlineTraining")
	assert.Equal(t, int64(1), o.Status.Learning.Changes)
}

// Where the spec begins in another phase, so does the policy, after a restart without a journal
// too.
func TestBeginChanges(t *testing.T) {
	w := newWorld(t, beginsIn(""))
	require.NoError(t, w.Create(t.Context(), general("a")))
	requirePhase(t, w.step(15*time.Second), "OfflineTraining")
	change := func(begin string) {
		o := w.read()
		beginsIn(begin)(o)
		o.Generation++
		require.NoError(t, w.Update(t.Context(), o))
	}
	change("Serving")
	requirePhase(t, w.step(15*time.Second), "Serving")
	w.restart()
	change("OnlineTraining")
	for range 3 {
		o := w.step(15 * time.Second)
		requirePhase(t, o, "OnlineTraining")
		require.Equal(t, int64(2), o.Status.Learning.Changes)
	}
}

// While the journal's volume is full nothing is decided, and the phase stays as the status
// says; then it goes on.
func TestFullVolumeWhileLearning(t *testing.T) {
	w := newWorld(t, beginsIn("OnlineTraining"))
	w.options.JournalDir = t.TempDir()
	require.NoError(t, w.Create(t.Context(), general("a")))
	w.step(15 * time.Second)
	requirePhase(t, w.read(), "OnlineTraining")
	before := w.read().Status.Learning
	w.restart()
	dir := filepath.Join(w.options.JournalDir, "shop")
	full := filepath.Join(w.options.JournalDir, "away")
	require.NoError(t, os.Rename(dir, full))
	require.NoError(t, os.WriteFile(dir, nil, 0o600)) // no folder can be made there
	o := w.step(15 * time.Second)
	assert.Equal(t, "JournalFailed", o.Status.Summary)
	assert.Equal(t, before, o.Status.Learning)
	require.NoError(t, os.Remove(dir))
	require.NoError(t, os.Rename(full, dir))
	requirePhase(t, w.step(15*time.Second), "OnlineTraining")
}

// Without metrics nothing is changed in any phase.
func TestBlindWhileLearning(t *testing.T) {
	for _, phase := range []string{"OfflineTraining", "OnlineTraining", "Serving"} {
		w := newWorld(t, beginsIn(phase))
		require.NoError(t, w.Create(t.Context(), general("a")))
		w.step(15 * time.Second)
		id := w.objects[key].journaled.id
		w.usage.err = errors.New("away")
		for range 20 {
			o := w.step(15 * time.Second)
			require.Equal(t, phase, o.Status.Learning.Phase)
			require.Equal(t, "Hold", o.Status.Decision.Action)
			require.Equal(t, metav1.ConditionFalse, condition(&o.Status, v1alpha1.ConditionMetrics).Status)
		}
		require.LessOrEqual(t, w.objects[key].journaled.id, id)
	}
}
