package drain

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
)

// FuzzRebalance reads any spec, and gives a drain pods with any grace period.
func FuzzRebalance(f *testing.F) {
	f.Add([]byte(`{"mode":"Auto","every":"2562047h","moves":"100%","minReplicas":2147483647,"movesPerHour":2147483647,"inFlight":1}`), int64(1<<62), 3)
	f.Add([]byte(`{"mode":"DryRun","every":"1m","moves":"999999","minReplicas":1}`), int64(-1), 100)
	f.Fuzz(func(t *testing.T, data []byte, grace int64, pods int) {
		spec := &v1alpha1.RebalanceSpec{}
		if json.Unmarshal(data, spec) == nil {
			if s, err := parseSpec(spec); err == nil {
				require.GreaterOrEqual(t, s.every, time.Minute)
				require.LessOrEqual(t, s.every, longestEvery)
			}
		}
		p := &v1.Pod{Spec: v1.PodSpec{TerminationGracePeriodSeconds: &grace}}
		u := &drain{}
		for range min(max(pods, 0), 1000) {
			u.moves = append(u.moves, &move{moved: &movedPod{p}})
			require.True(t, u.moves[0].timeout() >= replacementTimeout && u.moves[0].timeout() <= 15*time.Minute+replacementTimeout)
		}
		require.True(t, u.deadline(noon).After(noon) && u.deadline(noon).Before(noon.Add(maxDeadline)))
	})
}
