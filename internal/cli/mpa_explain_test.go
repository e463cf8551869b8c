package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/internal/explain"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// Explain from a cluster goes by the object's status.
func TestMPAExplainFromCluster(t *testing.T) {
	at := time.Date(2026, 3, 2, 8, 15, 0, 0, time.UTC)
	quantity := func(s string) *resource.Quantity {
		q := resource.MustParse(s)
		return &q
	}
	object := &v1alpha1.MultidimPodAutoscaler{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "MultidimPodAutoscaler"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: v1alpha1.MultidimPodAutoscalerSpec{
			SLO:         &v1alpha1.SLO{Latency: &v1alpha1.LatencySLO{Percentile: 99, Target: metav1.Duration{Duration: 250 * time.Millisecond}}},
			Recommender: v1alpha1.Recommender{Name: "default", Algorithm: "hpa+vpa"},
		},
		Status: v1alpha1.MultidimPodAutoscalerStatus{
			Observed: &v1alpha1.Observed{Time: metav1.NewTime(at), Replicas: 4, Ready: 3, Rate: quantity("312500m"), Latency: &metav1.Duration{Duration: 280 * time.Millisecond}},
			Decision: &v1alpha1.Decision{
				Time: metav1.NewTime(at), Action: "Hold", Source: "hpa", Replicas: 6, Reason: "7 changes within an hour",
				Containers: []v1alpha1.ContainerRequests{{Name: "app", CPU: quantity("500m"), Memory: quantity("1Gi")}},
				Guards:     []string{"bounds: 9 replicas become 6", "cool-down: 7 changes within an hour"},
			},
			Recommendation: &v1alpha1.Recommendation{
				ID: 7, Time: metav1.NewMicroTime(at.Add(-10 * time.Minute)), Change: v1alpha1.ChangeReplicas, Replicas: 4, Reason: "cpu at 120 % of its requests, 80 % wanted",
			},
			Actuation: &v1alpha1.Actuation{ID: 7, Outcome: v1alpha1.OutcomeRefused, Message: "quota exceeded", Time: metav1.NewMicroTime(at.Add(-10*time.Minute + time.Second))},
			Conditions: []metav1.Condition{
				{Type: v1alpha1.ConditionActive, Status: metav1.ConditionTrue, Reason: "Active"},
				{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: "PolicyValid"},
				{Type: v1alpha1.ConditionAble, Status: metav1.ConditionFalse, Reason: "QuotaExceeded", Message: "quota exceeded"},
			},
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/apis/autoscaling.sigma-scheduler.io/v1alpha1/namespaces/shop/multidimpodautoscalers/web" {
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: metav1.StatusReasonNotFound, Code: 404, Message: `multidimpodautoscalers "x" not found`})
			return
		}
		_ = json.NewEncoder(w).Encode(object)
	}))
	defer server.Close()
	config := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(config, []byte(`{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
users: [{name: a}], clusters: [{name: a, cluster: {server: "`+server.URL+`"}}]}`), 0o600))
	sigma := func(args ...string) (string, string, int) {
		var out, errs bytes.Buffer
		code := run(t.Context(), append([]string{"mpa", "explain", "--kubeconfig", config}, args...), &out, &errs)
		return out.String(), errs.String(), code
	}

	out, stderr, code := sigma("-n", "shop", "web")
	require.Equal(t, exitOK, code, stderr)
	assert.Equal(t, `workload   shop/web at 2026-03-02 08:15:00 UTC (cluster)
observed   4 replicas, 3 ready
           312.5 requests/s
           latency 280 ms at the 99 % percentile; 250 ms are promised
agent      hpa+vpa, by hpa
wanted     6 replicas; app 500m, 1024 MiB
guards     bounds: 9 replicas become 6
           cool-down: 7 changes within an hour
held       7 changes within an hour
before     4 replicas at 2026-03-02 08:05:00: cpu at 120 % of its requests, 80 % wanted
outcome    Refused after 1s: quota exceeded
conditions AbleToScale=False, QuotaExceeded: quota exceeded
`, out)

	out, stderr, code = sigma("-n", "shop", "web", "--format", "json")
	require.Equal(t, exitOK, code, stderr)
	var e explain.Sizing
	require.NoError(t, json.Unmarshal([]byte(out), &e))
	assert.Equal(t, "hold", e.Action)
	assert.Equal(t, int32(4), e.Last.To.Replicas)

	object.Status.Decision.Action = "Scale"
	out, _, _ = sigma("-n", "shop", "web")
	assert.Contains(t, out, "done       scale: 4 replicas\n")
	object.Spec.Recommender.Algorithm, object.Status.Decision.PolicyDigest = "learned", "sha256:12"
	out, _, _ = sigma("-n", "shop", "web")
	assert.Contains(t, out, "agent      learned@sha256:12, by hpa\n")
	object.Status.Learning = &v1alpha1.LearningStatus{Phase: "OfflineTraining", Shadow: &v1alpha1.Shadow{Source: "learned", Replicas: 3, Reason: "less"}}
	out, _, _ = sigma("-n", "shop", "web")
	assert.Contains(t, out, "learning   OfflineTraining; not judged yet\nshadow     learned: 3 replicas\nbecause    less\nwanted ")
	judged := metav1.NewMicroTime(at)
	object.Status.Learning.Judged, object.Status.Learning.Rules, object.Status.Learning.Policy, object.Status.Learning.Runs = &judged, "1.000", "1.250", 3
	out, _, _ = sigma("-n", "shop", "web")
	assert.Contains(t, out, "OfflineTraining; objective 1.250, of the rules 1.000; promises broken in 0 and 0 of 3 runs\n")

	_, stderr, code = sigma("web")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, `get multidimpodautoscalers: multidimpodautoscalers "x" not found`)

	object.Status = v1alpha1.MultidimPodAutoscalerStatus{Conditions: []metav1.Condition{
		{Type: v1alpha1.ConditionActive, Status: metav1.ConditionFalse, Reason: "TargetMissing", Message: "there is no Deployment web"},
	}}
	out, _, _ = sigma("-n", "shop", "web")
	assert.Contains(t, out, "workload   shop/web (cluster)\n")
	out, _, _ = sigma("-n", "shop", "web", "--format", "json")
	assert.NotContains(t, out, `"time"`)

	object.Status = v1alpha1.MultidimPodAutoscalerStatus{}
	_, stderr, code = sigma("-n", "shop", "web")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, `shop/web: nothing was decided yet: does a recommender named "default" run?`)
}
