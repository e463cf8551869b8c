package reach

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// An API server stands between the prober and the webhook, which it may not reach.
func TestProber(t *testing.T) {
	way, created := "open", 0
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if created++; way == "away" {
			return errors.New("the API server is away")
		}
		require.Equal(t, []client.CreateOption{client.DryRunAll}, opts)
		if way == "closed" { // failurePolicy: Ignore
			return nil
		}
		raw, err := json.Marshal(o)
		require.NoError(t, err)
		answer := Mark(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Object: runtime.RawExtension{Raw: raw}}})
		require.True(t, answer.Allowed)
		list, err := json.Marshal(answer.Patches)
		require.NoError(t, err)
		patch, err := jsonpatch.DecodePatch(list)
		require.NoError(t, err)
		raw, err = patch.Apply(raw)
		require.NoError(t, err)
		return json.Unmarshal(raw, o.(*v1.ConfigMap))
	}}).Build()
	p := New(c, "sigma-mpa", time.Minute)
	_, known, _ := p.Reached()
	require.False(t, known)
	for i, step := range []struct {
		way            string
		times          int
		reached, known bool
		metric         float64
	}{
		{"away", 5, true, false, 0},
		{"closed", 2, true, false, 0},
		{"open", 1, true, true, 1},
		{"closed", 2, true, true, 1},
		{"away", 3, true, true, 1},
		{"closed", 1, false, true, 0},
		{"away", 3, false, true, 0},
		{"open", 1, true, true, 1},
	} {
		way = step.way
		for range step.times {
			p.Probe(t.Context())
		}
		reachedNow, known, why := p.Reached()
		require.Equal(t, []bool{step.reached, step.known}, []bool{reachedNow, known}, "step %d: %s", i, why)
		require.Equal(t, step.metric, testutil.ToFloat64(reached), "step %d", i)
	}
	require.Equal(t, 18, created)
	require.False(t, Mark(t.Context(), admission.Request{}).Allowed)
}
