package savings

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Memory of which nothing is measured is absent: on the screen, in JSON, and in the savings of a workload.
func TestMemoryWithoutMeasurements(t *testing.T) {
	tr := listed()
	cluster := tr.Source[clusterKey].(map[string]any)
	cluster["used"] = map[string]any{"cpu": 4., "memory": 0.}
	cluster["use"] = map[string]any{"shop/Deployment/web": map[string]any{"cpu": 4., "memory": 0.}}
	b := billOf(t, tr)
	var screen strings.Builder
	require.NoError(t, b.Print(&screen, false))
	require.Contains(t, screen.String(), "used 12 %     memory requested 25 %\n")
	text, err := json.Marshal(b)
	require.NoError(t, err)
	require.Contains(t, string(text), `"used":{"cpu":4}`)
	require.NotNil(t, b.Namespaces[0].Workloads[0].Used)
	require.Nil(t, b.Namespaces[0].Workloads[0].Saves)
	require.Nil(t, b.Namespaces[0].Saves)

	cluster["used"] = map[string]any{"cpu": 0., "memory": 0.}
	require.Nil(t, billOf(t, tr).Used)
}
