package recommender

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/collect"
	"github.com/sigma-scheduler/sigma/mpa/knative"
)

// queues is a Prometheus that scrapes the queue-proxies of Revision web-00001, two pods: 90 requests a
// second, each of 10.7 ms of cpu and 40 ms of waiting. Of web-00002, one pod, 10 come, and some are lost.
type queues struct {
	world  *world
	silent bool
	age    time.Duration
}

func (q *queues) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := float64(q.world.clock.Now().UnixMilli()) / 1000
	query := r.FormValue("query")
	result := fmt.Sprintf(`[{"metric":{"mpa_selector":"0"},"value":[%f,"%f"]},{"metric":{"mpa_selector":"1"},"value":[%f,"%f"]}]`, now, now-1-q.age.Seconds(), now, now-1-q.age.Seconds())
	if !strings.Contains(query, "timestamp(") {
		value := "90"
		canary := strings.Contains(query, "web-2")
		for _, v := range []struct{ part, stable, canary string }{
			{"", "90", "10"},
			{`=~"5.."`, "0", "2"},
			{"invocation_duration_seconds_sum", "6", "1"},
			{"duration_seconds_sum{", "6", "1"},
			{"clamp_min(sum(rate(http_server_request_duration_seconds_sum", "1", "1"},
			{"le=~", "9", "3"},
			{"histogram_quantile", ".2", ".2"},
		} {
			if strings.Contains(query, v.part) {
				if value = v.stable; canary {
					value = v.canary
				}
			}
		}
		result = fmt.Sprintf(`[{"metric":{},"value":[%f,"%s"]}]`, now, value)
	}
	if q.silent {
		result = "[]"
	}
	_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":%s}}`, result)
}

func ksvc() *unstructured.Unstructured {
	u := knative.New(knative.ServiceKind)
	u.SetNamespace("shop")
	u.SetName("web")
	u.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{
		"containerConcurrency": int64(0), "containers": []any{map[string]any{"image": "example.com/web"}},
	}}}
	u.Object["status"] = map[string]any{"latestReadyRevisionName": "web-00001", "latestCreatedRevisionName": "web-00001"}
	return u
}

// knativeWorld has a Knative Service instead of the Deployment, whose pods have a queue-proxy.
func knativeWorld(t *testing.T) (*world, *queues) {
	t.Helper()
	w := newWorld(t, func(o *v1alpha1.MultidimPodAutoscaler) {
		o.Spec.ScaleTargetRef = v1alpha1.TargetReference{APIVersion: "serving.knative.dev/v1", Kind: "Service", Name: "web"}
		o.Spec.Constraints = v1alpha1.Constraints{}
		o.Spec.Concurrency = &v1alpha1.Concurrency{Mode: v1alpha1.ConcurrencyObserve, Pod: v1alpha1.PodKnative, Learner: "law+walk", Min: 1, Max: 310, Initial: 10}
		o.Spec.Metrics.Prometheus = &v1alpha1.Prometheus{Server: "main"}
		o.Spec.SLO = &v1alpha1.SLO{Latency: &v1alpha1.LatencySLO{Percentile: 95, Target: metav1.Duration{Duration: time.Second}}}
	})
	require.NoError(t, w.Create(t.Context(), ksvc()))
	for i := range 3 {
		p := pod(i)
		require.NoError(t, client.IgnoreNotFound(w.Delete(t.Context(), p.DeepCopy())))
		p.Labels = map[string]string{knative.RevisionLabel: "web-00001"}
		p.Spec.Containers[0].Name = "user-container"
		if i == 2 {
			p.Labels[knative.RevisionLabel] = "web-00002"
		}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "queue-proxy", Resources: corev1.ResourceRequirements{Requests: amounts("4", "4Gi")}})
		require.NoError(t, w.Create(t.Context(), p))
	}
	w.usage.container, w.usage.pods = "user-container", 3
	q := &queues{world: w}
	server := httptest.NewServer(q)
	t.Cleanup(server.Close)
	var err error
	w.collector.Prometheus, err = collect.NewPrometheus([]collect.Server{{Name: "main", URL: server.URL}}, 20, w.clock.Now)
	require.NoError(t, err)
	return w, q
}

// What a pod of a Knative Service takes is learned from its queue-proxies, and nothing is written.
func TestObservesKnative(t *testing.T) {
	w, q := knativeWorld(t)
	service := func() *unstructured.Unstructured {
		u := knative.New(knative.ServiceKind)
		require.NoError(t, w.live.Get(t.Context(), key, u))
		return u
	}
	before := service()
	var o *v1alpha1.MultidimPodAutoscaler
	for range 12 {
		o = w.step(15 * time.Second)
	}
	c := o.Status.Concurrency
	require.NotNil(t, c, "%+v", o.Status)
	require.NotNil(t, c.Demand, "%+v", c)
	assert.Zero(t, c.InForce)
	assert.InDelta(t, .96/90, c.Demand.Value.Seconds(), .0005)
	assert.InDelta(t, .85*.5/(.96/90), c.RatePerPod.AsApproximateFloat64(), 5, "of the user's container, without queue-proxy")
	assert.Zero(t, c.Replicas)
	assert.Equal(t, int32(2), o.Status.Observed.Ready)
	assert.Equal(t, "0.20", o.Status.Observed.SLORatio)
	assert.Equal(t, "Knative", condition(&o.Status, v1alpha1.ConditionActive).Reason)
	assert.Equal(t, v1alpha1.PhaseRecommending, o.Status.Phase)
	assert.Equal(t, "OK", o.Status.Summary, "%+v", o.Status.Conditions)
	assert.Nil(t, o.Status.Recommendation)
	assert.Equal(t, before, service())

	q.silent = true
	o = w.step(15 * time.Second)
	assert.Contains(t, condition(&o.Status, v1alpha1.ConditionMetrics).Message, "gates: ")
	assert.NotNil(t, o.Status.Concurrency.Demand, "what was learned stays")
}

// What canary and present Revision do is summed up in the status, and goes on after a restart. What
// was not measured counts for neither.
func TestKnativeTrial(t *testing.T) {
	w, q := knativeWorld(t)
	w.step(15 * time.Second)
	u := knative.New(knative.ServiceKind)
	require.NoError(t, w.live.Get(t.Context(), key, u))
	state := knative.State{Object: "web", UID: "mpa", Phase: knative.Canary, Since: w.clock.Now().Add(-time.Minute), Stable: "web-00001", Base: "x", Ours: knative.Setting{Limit: 8, Rate: 40}}
	u, err := knative.Write(u, &knative.Action{Write: true, State: state})
	require.NoError(t, err)
	require.NoError(t, w.Update(t.Context(), u))
	assert.Nil(t, w.step(15*time.Second).Status.Concurrency.Trial, "it is not ready")
	require.NoError(t, unstructured.SetNestedField(u.Object, "web-00002", "status", "latestReadyRevisionName"))
	require.NoError(t, w.Update(t.Context(), u))
	trial := w.step(15 * time.Second).Status.Concurrency.Trial
	require.NotNil(t, trial)
	assert.Zero(t, trial.Canary.Requests, "the sums begin")
	w.step(15 * time.Second)
	w.restart()
	trial = w.step(15 * time.Second).Status.Concurrency.Trial
	seconds := trial.Time.Sub(trial.Since.Time).Seconds()
	assert.GreaterOrEqual(t, seconds, 30.)
	assert.Equal(t, v1alpha1.Arm{Revision: "web-00001", Requests: 90 * seconds, Late: 9 * seconds, PodSeconds: 2 * seconds}, trial.Stable)
	assert.Equal(t, v1alpha1.Arm{Revision: "web-00002", Requests: 10 * seconds, Lost: 2 * seconds, Late: 3 * seconds, PodSeconds: seconds}, trial.Canary)
	q.age = time.Hour
	again := w.step(15 * time.Second).Status.Concurrency.Trial
	assert.Equal(t, trial, again, "stale")
	q.age, q.silent = 0, true
	for range 8 {
		again = w.step(15 * time.Second).Status.Concurrency.Trial
	}
	assert.Equal(t, trial, again, "missing")
	q.silent = false
	again = w.step(15 * time.Second).Status.Concurrency.Trial
	assert.Equal(t, trial.Canary, again.Canary, "what was between is not known")
	assert.Positive(t, again.Time.Sub(trial.Time.Time))
	assert.Equal(t, trial.Time.Sub(trial.Since.Time), again.Time.Sub(again.Since.Time), "it does not count as compared")
	assert.Greater(t, w.step(15*time.Second).Status.Concurrency.Trial.Canary.Requests, trial.Canary.Requests)
}

// A Revision whose target changes is measured alone, before and after that.
func TestKnativeTrialAlone(t *testing.T) {
	w, _ := knativeWorld(t)
	w.step(15 * time.Second)
	become := func(stage knative.Stage) time.Time {
		u := knative.New(knative.ServiceKind)
		require.NoError(t, w.live.Get(t.Context(), key, u))
		state := knative.State{Object: "web", UID: "mpa", Phase: knative.Observing, Target: &knative.Target{Stage: stage, Since: w.clock.Now(), Revision: "web-00001", Limit: 8, Rate: 40, Tried: 60, Was: &v1alpha1.Arm{}}}
		u, err := knative.Write(u, &knative.Action{Write: true, State: state})
		require.NoError(t, err)
		require.NoError(t, w.Update(t.Context(), u))
		return state.Target.Since
	}
	for _, stage := range []knative.Stage{knative.Measuring, knative.Trying} {
		since := become(stage)
		trial := w.step(15 * time.Second).Status.Concurrency.Trial
		require.NotNil(t, trial)
		assert.Zero(t, trial.Canary.Requests, "the sums begin")
		trial = w.step(15 * time.Second).Status.Concurrency.Trial
		seconds := trial.Time.Sub(trial.Since.Time).Seconds()
		assert.Positive(t, seconds)
		assert.Equal(t, v1alpha1.Arm{Revision: "web-00001", Requests: 90 * seconds, Late: 9 * seconds, PodSeconds: 2 * seconds}, trial.Canary)
		assert.Equal(t, trial.Canary, trial.Stable)
		// What Prometheus says now is the mean of a minute, of which a part was before the change: that
		// shows what is lost at once, and no more counts when the minute is over.
		for range 10 {
			trial = w.step(15 * time.Second).Status.Concurrency.Trial
		}
		assert.False(t, trial.Since.Time.Before(since.Add(time.Minute)), "the sums have begun again")
		assert.Less(t, trial.Since.Sub(since), 2*time.Minute, "once")
		assert.InDelta(t, 90*trial.Time.Sub(trial.Since.Time).Seconds(), trial.Canary.Requests, 1)
	}
	become(knative.Kept)
	assert.Nil(t, w.step(15*time.Second).Status.Concurrency.Trial)
}

// An object that no longer asks for the limit, as one that was admitted before its rules, has no trial.
func TestKnativeTrialWithoutConcurrency(t *testing.T) {
	w, _ := knativeWorld(t)
	u := knative.New(knative.ServiceKind)
	require.NoError(t, w.live.Get(t.Context(), key, u))
	state := knative.State{Object: "web", UID: "mpa", Phase: knative.Canary, Since: w.clock.Now(), Stable: "web-00001", Base: "x", Ours: knative.Setting{Limit: 8, Rate: 40}}
	u, err := knative.Write(u, &knative.Action{Write: true, State: state})
	require.NoError(t, err)
	require.NoError(t, unstructured.SetNestedField(u.Object, "web-00002", "status", "latestReadyRevisionName"))
	require.NoError(t, w.Update(t.Context(), u))
	o := w.read()
	o.Spec.Concurrency = nil
	require.NoError(t, w.Update(t.Context(), o))
	assert.Nil(t, w.step(15*time.Second).Status.Concurrency)
}

// An object waits, and says for what, where its Service cannot be read.
func TestKnativeRefusals(t *testing.T) {
	w, _ := knativeWorld(t)
	reason := func() string {
		o := w.step(15 * time.Second)
		if o.Status.Phase != v1alpha1.PhaseRefused {
			return ""
		}
		return condition(&o.Status, v1alpha1.ConditionActive).Reason
	}
	require.Empty(t, reason())
	was := w.live
	w.live = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{Get: failsFor(&meta.NoKindMatchError{GroupKind: knative.ServiceKind.GroupKind(), SearchedVersions: []string{"v1"}})})
	assert.Equal(t, "KnativeMissing", reason())
	w.live = was
	assert.Empty(t, reason(), "it comes later")
	for _, target := range []time.Duration{4 * time.Millisecond, 11 * time.Second, 10 * time.Second, 5 * time.Millisecond} {
		want := map[time.Duration]string{4 * time.Millisecond: "SpecInvalid", 11 * time.Second: "SpecInvalid"}[target]
		o := w.read()
		o.Spec.SLO.Latency.Target.Duration = target
		require.NoError(t, w.Update(t.Context(), o))
		assert.Equal(t, want, reason(), target)
	}
	u := ksvc()
	require.NoError(t, w.Delete(t.Context(), u))
	assert.Equal(t, "TargetMissing", reason())
	u = ksvc()
	delete(u.Object, "status")
	require.NoError(t, w.Create(t.Context(), u))
	assert.Equal(t, "NoRevision", reason())
	u.SetAnnotations(map[string]string{knative.Annotation: "{"})
	require.NoError(t, w.Update(t.Context(), u))
	assert.Equal(t, "TargetInvalid", reason())
	require.NoError(t, w.Delete(t.Context(), u))
	require.NoError(t, w.Create(t.Context(), ksvc()))
	assert.Empty(t, reason())
}

// The limit that is learned from is that of the pods, which may be another than the template's.
func TestKnativeLimitOfPods(t *testing.T) {
	w, _ := knativeWorld(t)
	assert.Equal(t, int32(0), w.step(15*time.Second).Status.Concurrency.InForce)
	p := pod(0)
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(p), p))
	p.Spec.Containers[1].Env = []corev1.EnvVar{{Name: "OTHER", Value: "3"}, {Name: "CONTAINER_CONCURRENCY", Value: "12"}}
	require.NoError(t, w.Update(t.Context(), p))
	assert.Equal(t, int32(12), w.step(15*time.Second).Status.Concurrency.InForce)
}

// failsFor lets reads of Services fail.
func failsFor(err error) func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
	return func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if o.GetObjectKind().GroupVersionKind() == knative.ServiceKind {
			return err
		}
		return c.Get(ctx, key, o, opts...)
	}
}
