//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/capacity"
	"github.com/sigma-scheduler/sigma/mpa/knative"
)

// TestKnativeTarget: the updater, with the rights of the manifests, gives the Revision that serves
// another target, which comes to Knative's PodAutoscaler without another Revision. One is kept, one that
// is worse returns, and with the object all of it goes. The updater is killed between the Service and the
// Revision. The test plays the recommender.
func TestKnativeTarget(t *testing.T) {
	c := ownCluster(t)
	k := c.StartKnative(t)
	service := strings.NewReplacer("NAME", "web", `{autoscaling.knative.dev/min-scale: "2"}`,
		`{autoscaling.knative.dev/min-scale: "2", autoscaling.knative.dev/class: kpa.autoscaling.knative.dev, autoscaling.knative.dev/metric: rps, autoscaling.knative.dev/target: "40", autoscaling.knative.dev/target-utilization-percentage: "70"}`,
		"    spec:\n", "    spec:\n      containerConcurrency: 8\n").Replace(knativeService)
	c.Kubectl(t, service, "apply", "-f", "-")
	revision := k.WaitReady(t, "default", "web")
	s := installMPA(t, c, "mpa/apart")
	knativeRights(t, c)
	c.Kubectl(t, strings.NewReplacer("NAME", "web", "MOST", "310").Replace(knativeObject), "apply", "-f", "-")

	objects := c.Dynamic.Resource(schema.GroupVersionResource{Group: v1alpha1.GroupName, Version: "v1alpha1", Resource: "multidimpodautoscalers"}).Namespace("default")
	state := func() (s knative.State) {
		s, err := knative.StateOf(k.Get(t, e2e.KnativeServices, "default", "web"))
		require.NoError(t, err)
		return s
	}
	const unmeasured = -1
	// recommend says what was learned, by the target that comes of it, and what the Revision does: before it has
	// the target, .02 of its requests are late, and then a share, or it is not measured.
	recommend := func(target string, late float64) {
		o, err := objects.Get(t.Context(), "web", metav1.GetOptions{})
		require.NoError(t, err)
		is := v1alpha1.ConcurrencyStatus{Windows: 5, Limit: 8, Demand: &v1alpha1.DurationRange{Value: metav1.Duration{Duration: 4 * time.Millisecond}}}
		text, err := json.Marshal(is)
		require.NoError(t, err)
		var status map[string]any
		require.NoError(t, json.Unmarshal(text, &status))
		rate, err := strconv.ParseFloat(target, 64)
		require.NoError(t, err)
		status["ratePerPod"] = strconv.FormatFloat(rate*capacity.Headroom, 'f', 3, 64)
		now := state()
		if of, since := now.Measured(); of != "" && (now.Target.Stage == knative.Measuring || late != unmeasured) {
			if now.Target.Stage == knative.Measuring {
				late = .02
			}
			arm := map[string]any{"revision": of, "requests": 10000, "lost": 0, "late": 10000 * late, "podSeconds": 300}
			status["trial"] = map[string]any{"since": metav1.NewMicroTime(since.Add(time.Millisecond)), "time": metav1.NowMicro(), "stable": arm, "canary": arm}
		}
		patch, err := json.Marshal(map[string]any{"status": map[string]any{"observedGeneration": o.GetGeneration(), "phase": "Recommending", "concurrency": status}})
		require.NoError(t, err)
		_, err = objects.Patch(t.Context(), "web", types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		require.NoError(t, err)
	}
	await := func(rate string, late float64, stages ...knative.Stage) {
		t.Helper()
		e2e.Wait(t, fmt.Sprint("the stage ", stages), func() (string, bool) {
			recommend(rate, late)
			g := state().Target
			return fmt.Sprintf("%+v %s", g, statusOf(t, c, "default", "web")), g != nil && slices.Contains(stages, g.Stage)
		})
	}
	const target = "autoscaling.knative.dev/target"
	scales := func(rate string) {
		t.Helper()
		e2e.Wait(t, "the PodAutoscaler's target", func() (string, bool) {
			is := k.Get(t, e2e.KnativeScalers, "default", revision).GetAnnotations()[target]
			return is, is == rate
		})
		require.Equal(t, rate, k.Get(t, e2e.KnativeRevisions, "default", revision).GetAnnotations()[target])
		require.Equal(t, []string{revision}, k.Revisions(t, "default", "web"))
	}

	flags := []string{"--canary-ready=60s", "--canary-least=1s", "--canary-longest=5m", "--canary-pause=1s", "--leader-elect=false"}
	one := s.startPart(t, c, "updater", flags...)
	await("60", unmeasured, knative.Writing, knative.Trying)
	one.Kill(t) // before it has written the Revision, or after that
	require.Contains(t, []knative.Stage{knative.Writing, knative.Trying}, state().Target.Stage)
	require.Equal(t, []string{revision}, k.Revisions(t, "default", "web"))
	requireAllowed(t, one)
	two := s.startPart(t, c, "updater", flags...)
	await("60", .02, knative.Kept)
	scales("60")
	k.Controller.Restart(t)
	await("90", unmeasured, knative.Trying)
	scales("90")
	e2e.Wait(t, "the way back to the one before", func() (string, bool) {
		recommend("90", .3)
		s := state()
		return s.String(), s.Target.Stage == knative.Kept && len(s.Worse) == 1
	})
	scales("60")
	k.WaitReady(t, "default", "web")
	c.Kubectl(t, "", "delete", "multidimpodautoscaler", "web", "-n", "default")
	scales("40")
	e2e.Wait(t, "a Service without traces", func() (string, bool) {
		u := k.Get(t, e2e.KnativeServices, "default", "web")
		return fmt.Sprint(u.GetAnnotations(), u.GetLabels()), u.GetAnnotations()[knative.Annotation] == "" && u.GetLabels()[knative.Annotation] == ""
	})
	requireAllowed(t, two)
}
