package learned_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa/learned"
)

// FuzzRead reads the numbers of any ScalingPolicy: each is within its range.
func FuzzRead(f *testing.F) {
	numbers := map[string]float64{}
	for _, n := range learned.Numbers {
		numbers[n.Name] = 1e300
	}
	text, err := json.Marshal(numbers)
	require.NoError(f, err)
	f.Add(1, text)
	f.Add(-1, []byte(`{"none":-1e300}`))
	f.Fuzz(func(t *testing.T, version int, data []byte) {
		numbers := map[string]float64{}
		if json.Unmarshal(data, &numbers) != nil {
			return
		}
		p, _, err := learned.Read("p", version, numbers, learned.Provenance{})
		if err != nil {
			return
		}
		for i, n := range learned.Numbers {
			require.True(t, p.Values[i] >= n.Min && p.Values[i] <= n.Max, "%s %v", n.Name, p.Values[i])
		}
	})
}
