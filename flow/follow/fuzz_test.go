package follow

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/podspec/podtest"
)

// FuzzSettings reads any FlowPolicy.
func FuzzSettings(f *testing.F) {
	f.Add([]byte(`{"spec":{"mode":"Live","bands":3,"rate":"1e30","thresholds":[1000,9223372036854775807]}}`))
	f.Add([]byte(`{"spec":{"mode":"Live","bands":2147483647,"rate":"18446744073709551617","floorPercent":1e300,"thresholds":[-1]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p := &v1alpha1.FlowPolicy{}
		if podtest.Slow(data) || json.Unmarshal(data, p) != nil {
			return
		}
		s, err := (&Follower{}).settings(p)
		if err != nil {
			return
		}
		require.True(t, s.Rate == 0 || s.Rate >= 1e6 && s.Rate <= 1e12)
		require.True(t, s.Floor > 0 && s.Floor < .051)
		for _, v := range s.Thresholds {
			require.True(t, v > 0 && float64(v) <= flow.LargestThreshold)
		}
	})
}
