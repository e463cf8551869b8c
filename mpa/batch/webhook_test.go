package batch

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

func converted(t *testing.T, spec string) (*v1.Pod, error) {
	t.Helper()
	raw, err := convert([]byte(`{"metadata":{"name":"p"},"future":{"kept":1},"spec":` + spec + `}`))
	if err != nil {
		return nil, err
	}
	require.Contains(t, string(raw), `"future":{"kept":1}`)
	pod := &v1.Pod{}
	require.NoError(t, json.Unmarshal(raw, pod))
	raw = []byte(strings.Replace(string(raw), `"spec":{`, `"spec":{"priority":-1000,`, 1)) // the API server sets it before it calls again
	again, err := convert(raw)
	require.NoError(t, err)
	require.JSONEq(t, string(raw), string(again), "it changes nothing twice")
	return pod, nil
}

func TestConvert(t *testing.T) {
	for name, tt := range map[string]struct{ resources, requests, limits string }{
		"requests": {
			`{"requests":{"cpu":"1500m","memory":"1Gi"}}`,
			`{"sigma-scheduler.io/batch-cpu":"1500","sigma-scheduler.io/batch-memory":"1073741824"}`,
			`{"sigma-scheduler.io/batch-cpu":"1500","sigma-scheduler.io/batch-memory":"1073741824"}`,
		},
		"others stay": {
			`{"requests":{"cpu":1,"memory":"1Gi","nvidia.com/gpu":"1"},"limits":{"cpu":"2","memory":"2Gi","nvidia.com/gpu":"1"}}`,
			`{"nvidia.com/gpu":"1","sigma-scheduler.io/batch-cpu":"1000","sigma-scheduler.io/batch-memory":"2147483648"}`,
			`{"nvidia.com/gpu":"1","sigma-scheduler.io/batch-cpu":"1000","sigma-scheduler.io/batch-memory":"2147483648"}`,
		},
		"limits alone": {
			`{"limits":{"cpu":"500m","memory":"1Gi"}}`,
			`{"sigma-scheduler.io/batch-cpu":"500","sigma-scheduler.io/batch-memory":"1073741824"}`,
			`{"sigma-scheduler.io/batch-cpu":"500","sigma-scheduler.io/batch-memory":"1073741824"}`,
		},
		"Koordinator's names": {
			`{"requests":{"kubernetes.io/batch-cpu":"2k","kubernetes.io/batch-memory":"1Gi"},"limits":{"kubernetes.io/batch-cpu":"2k","kubernetes.io/batch-memory":"1Gi"}}`,
			`{"sigma-scheduler.io/batch-cpu":"2000","sigma-scheduler.io/batch-memory":"1073741824"}`,
			`{"sigma-scheduler.io/batch-cpu":"2000","sigma-scheduler.io/batch-memory":"1073741824"}`,
		},
	} {
		pod, err := converted(t, `{"priority":0,"preemptionPolicy":"PreemptLowerPriority","priorityClassName":"high","containers":[{"name":"c","resources":`+tt.resources+`}]}`)
		require.NoError(t, err, name)
		r := pod.Spec.Containers[0].Resources
		requests, err := json.Marshal(r.Requests)
		require.NoError(t, err)
		var wantRequests, wantLimits v1.ResourceList
		require.NoError(t, json.Unmarshal([]byte(tt.requests), &wantRequests))
		require.NoError(t, json.Unmarshal([]byte(tt.limits), &wantLimits))
		assert.Equal(t, texts(wantRequests), texts(r.Requests), "%s: %s", name, requests)
		assert.Equal(t, texts(wantLimits), texts(r.Limits), name)
		assert.Equal(t, PriorityClass, pod.Spec.PriorityClassName)
		assert.Nil(t, pod.Spec.Priority, "by the class")
		assert.Nil(t, pod.Spec.PreemptionPolicy)
	}
}

func texts(list v1.ResourceList) map[string]int64 {
	out := map[string]int64{}
	for name, q := range list {
		out[string(name)] = q.MilliValue()
	}
	return out
}

func TestConvertAllContainers(t *testing.T) {
	pod, err := converted(t, `{"initContainers":[{"name":"i","resources":{"requests":{"cpu":"100m","memory":"1Mi"}}}],"containers":[{"name":"c"},{"name":"d","resources":{"requests":{"cpu":"1"},"limits":{"memory":"1Gi"}}}]}`)
	require.NoError(t, err)
	assert.EqualValues(t, 100, pod.Spec.InitContainers[0].Resources.Requests.Name(CPU, "").Value())
	assert.Empty(t, pod.Spec.Containers[0].Resources.Requests)
	assert.EqualValues(t, 1000, pod.Spec.Containers[1].Resources.Requests.Name(CPU, "").Value())
}

// A pod that cannot be converted starts as it is, with the reason.
func TestConvertNeverRefuses(t *testing.T) {
	const good = `{"name":"c","resources":{"requests":{"cpu":"1","memory":"1Gi"}}}`
	for raw, why := range map[string]string{
		`{"spec":{"containers":[{"name":"c"}]}}`: "no container requests cpu",
		`{"spec":{"containers":[1]}}`:            "want objects",
		`{"spec":{"containers":{}}}`:             "spec.containers",
		`{`:                                      "JSON",
		`{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"x"}}}]}}`:                                                          "spec.containers: c: cpu",
		`{"spec":{"containers":[{"name":"c","resources":1}]}}`:                                                                                 "spec.containers: c",
		`{"spec":{"resources":{"requests":{"cpu":"1"}},"containers":[` + good + `]}}`:                                                          "spec.resources",
		`{"spec":{"resources":{"limits":{"memory":"1Gi"}},"containers":[` + good + `]}}`:                                                       "spec.resources",
		`{"spec":{"resources":1,"containers":[` + good + `]}}`:                                                                                 "spec.resources",
		`{"spec":{"containers":[` + good + `,{"name":"d","resources":{"requests":{"cpu":"1"}}}]}}`:                                             "spec.containers: d: it requests cpu without memory",
		`{"spec":{"containers":[` + good + `],"initContainers":[{"name":"d","resources":{"requests":{"sigma-scheduler.io/batch-cpu":"1"}}}]}}`: "spec.initContainers: d: it requests cpu without memory",
	} {
		answer := Convert(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Object: runtime.RawExtension{Raw: []byte(raw)}}})
		assert.True(t, answer.Allowed, raw)
		assert.Empty(t, answer.Patches, raw)
		require.Len(t, answer.Warnings, 1, raw)
		assert.Contains(t, answer.Warnings[0], why, raw)
	}
}
