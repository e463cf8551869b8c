package sim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Errors name the file, and the line or field.
func TestReadApp(t *testing.T) {
	const good = `name: web
segments: [{profile: io-small}, {name: handler, cpu: {mean: 20ms, cv: 1}}]
workers: 64
limitRatio: 2
parallelism: 4
start: {replicas: 4, cpu: 1, memory: 1Gi}
slo: {percentile: 99, latency: 250ms}
replicas: {min: 1, max: 40}
requests: {min: {cpu: 250m, memory: 128Mi}, max: {cpu: 8, memory: 8Gi}}
`
	path := filepath.Join(t.TempDir(), "web.yaml")
	read := func(text string) error {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := ReadApp(path)
		return err
	}
	require.NoError(t, read(good))
	for change, want := range map[string]string{
		"workers=wrokers":                     "line 3: field wrokers not found",
		"20ms=-20ms":                          `line 2: "-20ms" is not a duration`,
		"cv: 1=cv: .nan":                      "segments[1].cpu: mean 0.02, cv NaN",
		"io-small=io-tiny":                    `segments[0].profile "io-tiny": there are`,
		"name: web=name: ''":                  `name "": want some letters`,
		"name: web=name: ../web":              `name "../web": want some letters, and no slash`,
		"limitRatio: 2=limitRatio: .inf":      "limitRatio +Inf: want",
		"limitRatio: 2=limitRatio: .5":        "limitRatio 0.5: want",
		"workers: 64=limit: {min: 5, max: 2}": "limit 5 … 2: want",
		"workers: 64=contention: -1":          "contention -1",
		"workers: 64=clients: -1":             "clients -1: want at least 0",
		"parallelism: 4=parallelism: .inf":    "parallelism +Inf",
		"cpu: 8=cpu: 100m":                    "requests.max is below requests.min",
		"replicas: 4=replicas: 0":             "start.replicas 0: want at least 1",
		"max: 40=max: 0":                      "replicas 1 … 0",
		"percentile: 99=percentile: 100":      "slo.percentile 100",
		"latency: 250ms=latency: 0s":          "slo.latency and slo.percentile are needed",
	} {
		from, to, _ := strings.Cut(change, "=")
		require.Contains(t, good, from)
		err := read(strings.Replace(good, from, to, 1))
		require.ErrorContains(t, err, path+": ", change)
		require.ErrorContains(t, err, want, change)
	}
}
