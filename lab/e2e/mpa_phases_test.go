//go:build e2e

package e2e_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/internal/scaling"
	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// inPhase reports whether a policy is in a phase, and who decides as it should be there.
func inPhase(phase mpa.LearningPhase) func(*member, *v1alpha1.MultidimPodAutoscalerStatus) bool {
	acts, shadow := "learned", "hpa+vpa"
	if phase == mpa.OfflineTraining {
		acts, shadow = shadow, acts
	}
	return func(_ *member, s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		l := s.Learning
		return l != nil && l.Phase == string(phase) && s.Decision != nil && s.Decision.Source == acts && l.Shadow != nil && l.Shadow.Source == shadow
	}
}

// Policies go through their phases while recommenders are killed in each of them and two decide
// at once, a policy is replaced and one deleted while it is in OnlineTraining, and metrics are
// gone while one serves: the phase is what the status says, the rules act where they should,
// and nothing shrinks blindly. All journals replay.
func TestMPAPhases(t *testing.T) {
	f := startFleet(t)
	size := memberSpec{
		replicas: 2, max: 8, rate: 60, mode: v1alpha1.ModeInPlaceOrRecreate, algorithm: "learned", policy: "general",
		learning: map[string]any{"window": "1m"}, usage: v1alpha1.UsagePrometheus, prometheus: "main", memory: "256Mi", maxMemory: "1Gi",
	}
	swap, gone, dark := size, size, size
	swap.policy, gone.policy = "swapped", "gone"
	dark.learning, dark.prometheus = map[string]any{"begin": "Serving", "window": "1m"}, "dark"
	web, swapped, deleted, blind := f.add("web", size), f.add("swapped", swap), f.add("deleted", gone), f.add("blind", dark)
	all := []*member{web, swapped, deleted, blind}
	prometheus := e2e.StartPrometheus(t, web.load.Target, swapped.load.Target, deleted.load.Target, blind.load.Target)
	proxy := e2e.StartFaultProxy(t, prometheus.URL)
	f.c.WaitRunning(t, f.ns, 8)
	first, firstDigest := changedPolicy(t, "swapped", "betaFirst", .75)
	second, secondDigest := changedPolicy(t, "swapped", "betaFirst", .8)
	third, _ := changedPolicy(t, "gone", "betaFirst", .7)
	f.applyPolicy("general", generalPath())
	f.applyPolicy("swapped", first)
	f.applyPolicy("gone", third)
	journals, servers := t.TempDir(), e2e.PrometheusServers(t, map[string]string{"main": prometheus.URL, "dark": proxy.URL})
	m := f.startAll("--journal-dir="+journals, "--leader-elect=false", servers)
	for i, spec := range []memberSpec{size, swap, gone, dark} {
		f.autoscale(all[i].name, spec)
	}

	// killed replaces the process: the next one is where this one was, since the same time.
	killed := func(phase mpa.LearningPhase) {
		t.Helper()
		f.await(string(phase), []*member{web}, inPhase(phase))
		before := f.statuses()["web"].Learning
		m.Kill(t)
		m.Restart(t)
		m.WaitReady(t)
		decisions := func() (string, bool) { return "", m.Metric(t, "sigma_mpa_decisions_total", `name="web"`) >= 3 }
		e2e.Wait(t, "decisions of the next process", decisions)
		after := f.statuses()["web"].Learning
		require.Equal(t, before.Phase, after.Phase)
		require.Equal(t, before.Since, after.Since)
		require.Equal(t, before.Changes, after.Changes)
	}
	killed(mpa.OfflineTraining)
	f.await("serving", []*member{blind}, inPhase(mpa.Serving))
	table := f.c.Kubectl(t, "", "get", "mpa", "-n", f.ns)
	require.Regexp(t, `(?m)^NAME .* LEARNING +REPLICAS`, table)
	require.Regexp(t, `(?m)^web .* hpa\+vpa +OfflineTraining +2 `, table)

	// Metrics are gone while a policy serves, and the load with them.
	blind.set(5)
	proxy.Set(e2e.Down)
	f.await("blindness", []*member{blind}, func(_ *member, s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		return hasCondition(s, v1alpha1.ConditionMetrics, metav1.ConditionFalse)
	})
	f.requireUnchanged([]*member{blind}, func() {
		killed(mpa.OnlineTraining)
		s := f.statuses()["blind"]
		require.Equal(t, string(mpa.Serving), s.Learning.Phase)
		require.True(t, hasCondition(s, v1alpha1.ConditionMetrics, metav1.ConditionFalse))
	})
	blind.set(60)
	proxy.Set(nil)

	// A replaced policy begins in the shadow, one that is deleted goes back there.
	f.await("acting", []*member{swapped, deleted}, inPhase(mpa.OnlineTraining))
	require.Equal(t, firstDigest, f.statuses()["swapped"].Learning.PolicyDigest)
	f.c.Kubectl(t, "", "apply", "-f", second)
	f.c.Kubectl(t, "", "delete", "scalingpolicy", "gone")
	f.await("their shadows", []*member{swapped, deleted}, inPhase(mpa.OfflineTraining))
	statuses := f.statuses()
	require.Equal(t, secondDigest, statuses["swapped"].Learning.PolicyDigest)
	require.Zero(t, statuses["swapped"].Learning.Changes)
	require.Equal(t, int64(2), statuses["deleted"].Learning.Changes)
	require.True(t, hasCondition(statuses["deleted"], v1alpha1.ConditionAccepted, metav1.ConditionFalse, "PolicyMissing"))

	// A second recommender, with no journal, decides as well.
	other := f.c.StartMPA(t, append([]string{
		"recommender", "--kubeconfig=" + filepath.Join(f.c.Dir, "kubeconfig"), "--leader-elect=false", servers,
	}, quick...)...)
	e2e.Wait(t, "decisions of both", func() (string, bool) {
		return "", other.Metric(t, "sigma_mpa_decisions_total", `name="web"`) >= 10
	})
	changes := f.statuses()["web"].Learning.Changes
	require.LessOrEqual(t, changes, int64(2), "two that judge are not two steps")
	other.Stop(t)

	killed(mpa.Serving)
	f.await("the figures", []*member{web}, func(_ *member, s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		return s.Learning.Rules == "1.000" && s.Learning.Policy != "" && s.Learning.Runs > 0
	})
	f.await("metrics again", []*member{blind}, func(_ *member, s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		return hasCondition(s, v1alpha1.ConditionMetrics, metav1.ConditionTrue)
	})
	require.Contains(t, f.c.Kubectl(t, "", "get", "events", "-n", f.ns), "OnlineTraining after OfflineTraining: objective")
	f.requireSteady(all...)

	m.Stop(t)
	weights, err := scaling.Weights([]string{first, second, third})
	require.NoError(t, err)
	for _, k := range all {
		f.requireEqual(journals, k.name, replayed{weights, []string{"--policy=" + first, "--policy=" + second, "--policy=" + third}})
	}
}

// requireEqual replays a member's journal after its writer has ended.
func (f *fleet) requireEqual(dir, name string, with replayed) {
	f.Helper()
	files, err := filepath.Glob(filepath.Join(dir, f.ns, name+".*.jsonl"))
	require.NoError(f, err)
	require.Len(f, files, 1, "%s", name)
	begin := time.Now()
	printed := f.sigma(append(append([]string{"mpa", "replay"}, with.flags...), files...)...)
	require.Regexp(f, `(\d+) decisions, \d+ equal`, printed)
	f.Logf("%s, in %v", fmt.Sprint(printed), time.Since(begin))
}
