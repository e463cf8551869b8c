//go:build e2e

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/internal/scaling"
	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/learned"
)

// applyPolicy puts a ScalingPolicy into the cluster for this test only.
func (f *fleet) applyPolicy(name, path string) {
	f.Helper()
	f.c.Kubectl(f, "", "apply", "-f", path)
	f.Cleanup(func() { f.c.Kubectl(f, "", "delete", "scalingpolicy", name, "--ignore-not-found") })
}

func generalPath() string { return filepath.Join(repository, "mpa", "learned", "general.yaml") }

// changedPolicy writes the shipped policy with another number, as kubectl and replays read it.
func changedPolicy(t *testing.T, name, number string, value float64) (path, digest string) {
	t.Helper()
	p := learned.General()
	p.Name = name
	for i, n := range learned.Numbers {
		if n.Name == number {
			p.Values[i] = value
		}
	}
	data, err := p.Marshal()
	require.NoError(t, err)
	path = filepath.Join(t.TempDir(), "changed.yaml")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	if p, err = learned.Parse(path, data); err == nil {
		digest = p.Digest
	}
	return path, digest
}

// A ScalingPolicy decides for a workload under load, is replaced by another, by one that is
// not accepted, and is deleted: the last accepted one decides all the time, and conditions
// tell. A workload without a policy is sized by the fallback. Both journals replay.
func TestMPALearned(t *testing.T) {
	f := startFleet(t)
	size := memberSpec{
		replicas: 2, max: 8, rate: 60, mode: v1alpha1.ModeInPlaceOrRecreate, algorithm: "learned", policy: "general",
		learning: map[string]any{"begin": "Serving"}, usage: v1alpha1.UsagePrometheus, prometheus: "main", memory: "256Mi", maxMemory: "1Gi",
	}
	without := size
	without.policy, without.learning = "", nil
	web, bare := f.add("web", size), f.add("bare", without)
	prometheus := e2e.StartPrometheus(t, web.load.Target, bare.load.Target)
	f.c.WaitRunning(t, f.ns, 4)
	journals := t.TempDir()
	f.applyPolicy("general", generalPath())
	m := f.startAll("--journal-dir="+journals, e2e.PrometheusServers(t, map[string]string{"main": prometheus.URL}))
	f.autoscale("web", size)
	f.autoscale("bare", without)

	table := ""
	e2e.Wait(t, "the policy to be accepted", func() (string, bool) {
		table = f.c.Kubectl(t, "", "get", "scalingpolicy", "general", "-o", "wide")
		return table, strings.Contains(table, "sha256:")
	})
	data, err := learned.General().Marshal()
	require.NoError(t, err)
	p, err := learned.Parse("general", data)
	require.NoError(t, err)
	require.Regexp(t, `general +True +Valid +.*`+p.Digest, table)

	decides := func(digest, source string) func(*member, *v1alpha1.MultidimPodAutoscalerStatus) bool {
		return func(_ *member, s *v1alpha1.MultidimPodAutoscalerStatus) bool {
			return hasCondition(s, v1alpha1.ConditionMetrics, metav1.ConditionTrue) && s.Decision.PolicyDigest == digest && s.Decision.Source == source
		}
	}
	f.await("learned to decide", []*member{web}, decides(p.Digest, "learned"))
	f.await("the fallback to decide", []*member{bare}, decides("", "hpa+vpa"))
	f.await("why", []*member{bare}, func(_ *member, s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		return hasCondition(s, v1alpha1.ConditionAccepted, metav1.ConditionFalse, "PolicyMissing") && s.Summary == "PolicyMissing" &&
			hasCondition(s, v1alpha1.ConditionFallback, metav1.ConditionTrue, "PolicyMissing") && s.Phase == v1alpha1.PhaseFallback
	})

	web.set(250)
	bare.set(150)
	f.awaitReplicas([]*member{bare}, 4, 5)
	e2e.Wait(t, "learned to grow the workload", func() (string, bool) {
		return fmt.Sprint(web.changes(), brief(f.statuses()["web"])), web.changes() >= 2
	})
	f.awaitSLO(web)
	f.awaitSLO(bare)
	why := f.sigma("mpa", "explain", "--kubeconfig="+filepath.Join(f.c.Dir, "kubeconfig"), "-n", f.ns, "web")
	require.Contains(t, why, p.Digest)
	require.Regexp(t, `cores .* as a slack of`, why)

	accepted := func(status metav1.ConditionStatus, reason, digest string) {
		t.Helper()
		f.await(reason, []*member{web}, func(_ *member, s *v1alpha1.MultidimPodAutoscalerStatus) bool {
			return hasCondition(s, v1alpha1.ConditionAccepted, status, reason) && s.Decision.PolicyDigest == digest
		})
	}
	// Another version of the policy decides from the next decision on.
	changed, digest := changedPolicy(t, "general", "betaFirst", 1)
	f.c.Kubectl(t, "", "apply", "-f", changed)
	accepted(metav1.ConditionTrue, "PolicyValid", digest)
	// A number outside its box is refused by name, and the last version goes on.
	wrong, _ := changedPolicy(t, "general", "kappa", 99)
	f.c.Kubectl(t, "", "apply", "-f", wrong)
	accepted(metav1.ConditionFalse, "PolicyInvalid", digest)
	e2e.Wait(t, "the policy's own condition", func() (string, bool) {
		is := f.c.Kubectl(t, "", "get", "scalingpolicy", "general", "-o", "yaml")
		return is, strings.Contains(is, "spec.numbers.kappa: 99 is not within 0 and 2") && strings.Contains(is, "reason: Invalid")
	})
	f.c.Kubectl(t, "", "delete", "scalingpolicy", "general")
	accepted(metav1.ConditionFalse, "PolicyMissing", digest)
	before := f.statuses()["web"].Observed.Time
	f.await("decisions without the object", []*member{web}, func(_ *member, s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		return s.Observed.Time.After(before.Time) && s.Decision.PolicyDigest == digest && s.Decision.Source == "learned"
	})
	f.c.Kubectl(t, "", "apply", "-f", generalPath())
	accepted(metav1.ConditionTrue, "PolicyValid", p.Digest)
	f.requireCalm(web, bare)

	weights, err := scaling.Weights([]string{changed})
	require.NoError(t, err)
	f.requireReplayed(m, journals, replayed{weights, []string{"--policy=" + changed}}, "web", "bare")
}
