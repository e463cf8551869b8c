package control

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/podspec/podtest"
)

// FuzzSettings reads any spec of a PolicyPilot.
func FuzzSettings(f *testing.F) {
	f.Add([]byte(`{"policy":"general","baseline":"bestfit","train":{"schedule":"0 3 * * 1","history":2147483647,"validate":2147483646,"test":2,"within":"1h","judgeWithin":"1h"},"guard":{"every":"1m"},"rollout":[{"mode":"live"}],"record":{"size":"1e30"}}`))
	f.Add([]byte(`{"policy":"general","baseline":"bestfit","train":{"schedule":"0 3 * * 1","history":28,"validate":4,"test":7,"within":"2562047h","judgeWithin":"1h"},"guard":{"every":"1m","pendingP99":"-1s"},"rollout":[{"mode":"canary","percent":2147483647},{"mode":"live","for":"-1h"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		spec := &v1alpha1.PolicyPilotSpec{}
		if podtest.Slow(data) || json.Unmarshal(data, spec) != nil {
			return
		}
		if s, err := settingsOf(spec); err == nil {
			require.True(t, s.History <= 366 && s.Choose >= 1 && s.Test >= 2 && s.Choose+s.Test < s.History)
			require.True(t, s.TrainWithin > 0 && s.JudgeWithin > 0 && s.Rest >= 0)
			for _, stage := range s.Rollout {
				require.GreaterOrEqual(t, int64(stage.For), int64(0))
			}
		}
		if l := limitsOf(spec); spec.Record.Size != nil && spec.Record.Size.Sign() > 0 {
			require.Positive(t, l.Bytes)
		}
	})
}
