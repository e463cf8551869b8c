//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A PastSeries is a time series of former weeks, as lab/prometheus/fill makes it. Times are
// seconds since 1970.
type PastSeries struct {
	Labels             map[string]string
	Counter            bool // Mean is its rate then
	From, Until        int64
	Mean, Swing, Noise float64
	Seed               uint64
	Reset              int64
	Gaps               [][2]int64
}

// Container returns the series of cAdvisor of a container, with its cgroup.
func (s PastSeries) Container(namespace, pod, container, cgroup string, cores, bytes float64) []PastSeries {
	of := func(metric string) map[string]string {
		return map[string]string{"__name__": metric, "namespace": namespace, "pod": pod, "container": container, "id": cgroup, "job": "kubelet", "image": "registry.example.org/main"}
	}
	cpu, memory := s, s
	cpu.Labels, cpu.Counter, cpu.Mean = of("container_cpu_usage_seconds_total"), true, cores
	memory.Labels, memory.Mean = of("container_memory_working_set_bytes"), bytes
	return []PastSeries{cpu, memory}
}

// StartPrometheusOfPast starts one that scrapes nothing, and has scraped the series before.
func StartPrometheusOfPast(t testing.TB, interval time.Duration, series []PastSeries) *Prometheus {
	t.Helper()
	program, err := prometheusProgram()
	require.NoError(t, err)
	fill := func(data string) {
		var in bytes.Buffer
		for _, s := range series {
			require.NoError(t, json.NewEncoder(&in).Encode(s))
		}
		require.NoError(t, os.Mkdir(data, 0o700))
		command := exec.Command(filepath.Join(filepath.Dir(program), "fill"), "--out", data, "--interval", interval.String())
		command.Stdin = &in
		out, err := command.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	const keep = "--storage.tsdb.retention.time=90d"
	return startPrometheusAfter(t, fill, []byte("global: {scrape_interval: 1m}\n"), nil, keep, "--storage.tsdb.min-block-duration=2h", "--storage.tsdb.max-block-duration=1d")
}
