//go:build e2e

package e2e

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// Scheduler is a scheduler under test, with the rights of user
// system:kube-scheduler.
type Scheduler struct {
	*Process
	URL string // of its health and metrics
}

var processes atomic.Int32 // how many were started, and ports found

// StartScheduler starts a scheduler, one of the programs or a path, and returns
// when it is ready. The configuration is a KubeSchedulerConfiguration in YAML;
// kind, kubeconfig, no leader election and no rate limit are added if it leaves
// them out. An empty one is upstream's default.
func (c *Cluster) StartScheduler(t testing.TB, program, config string, flags ...string) *Scheduler {
	t.Helper()
	if !filepath.IsAbs(program) {
		program = Program(t, program)
	}
	name := fmt.Sprintf("%s-%d", filepath.Base(program), processes.Add(1))
	dir := filepath.Join(scratch(t), name)
	require.NoError(t, os.Mkdir(dir, 0o700))
	kubeconfig := filepath.Join(c.Dir, "scheduler.kubeconfig")
	file := filepath.Join(dir, "config.yaml")
	require.NoError(t, os.WriteFile(file, completed(t, config, kubeconfig), 0o600))
	port := FreePort(t)
	s := &Scheduler{URL: fmt.Sprintf("https://127.0.0.1:%d", port)}
	s.Process = StartProcess(t, name, program, append([]string{
		"--config=" + file,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--cert-dir=" + dir,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
	}, flags...)...)
	s.WaitReady(t)
	return s
}

// WaitReady waits until the scheduler is ready, after a Restart too.
func (s *Scheduler) WaitReady(t testing.TB) {
	t.Helper()
	s.waitOK(t, func() (*http.Response, error) { return insecure.Get(s.URL + "/readyz") })
}

// Metric is the sum of the scheduler's series with that name and those labels;
// see [Metric].
func (s *Scheduler) Metric(t testing.TB, name string, labels ...string) float64 {
	t.Helper()
	return Metric(t, s.URL+"/metrics", name, labels...)
}

func completed(t testing.TB, text, kubeconfig string) []byte {
	t.Helper()
	config := map[string]any{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &config))
	complete := func(object map[string]any, key string, value any) any {
		if _, ok := object[key]; !ok {
			object[key] = value
		}
		return object[key]
	}
	complete(config, "apiVersion", "kubescheduler.config.k8s.io/v1")
	complete(config, "kind", "KubeSchedulerConfiguration")
	complete(config, "leaderElection", map[string]any{"leaderElect": false})
	connection, ok := complete(config, "clientConnection", map[string]any{}).(map[string]any)
	require.True(t, ok, "clientConnection must be an object")
	complete(connection, "kubeconfig", kubeconfig)
	complete(connection, "qps", 10000)
	complete(connection, "burst", 10000)
	out, err := yaml.Marshal(config)
	require.NoError(t, err)
	return out
}

var ports sync.Map // that FreePort gave

// FreePort finds a port below those that the kernel gives to outgoing connections,
// so that no such connection takes it before the program does, or while the program
// is down. No port is given twice.
func FreePort(t testing.TB) int {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(os.Getpid()), uint64(processes.Add(1))))
	for range 100 {
		port := 20000 + rng.IntN(12000)
		if listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			require.NoError(t, listener.Close())
			if _, given := ports.LoadOrStore(port, true); !given {
				return port
			}
		}
	}
	t.Fatal("no free port")
	return 0
}

// insecure accepts the certificates that programs make for themselves.
var insecure = &http.Client{
	Timeout:   10 * time.Second,
	Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
}

// Metric reads a page of metrics and sums series of it; see [SumMetric].
func Metric(t testing.TB, url, name string, labels ...string) float64 {
	t.Helper()
	return MetricWith(t, url, "", name, labels...)
}

// MetricWith is Metric with a bearer token.
func MetricWith(t testing.TB, url, token, name string, labels ...string) float64 {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := insecure.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	require.Equal(t, http.StatusOK, response.StatusCode, url)
	return SumMetric(t, response.Body, name, labels...)
}

// SumMetric sums the series of a page with that name and those labels, each written as on
// the page: result="scheduled". Without any it is 0.
func SumMetric(t testing.TB, page io.Reader, name string, labels ...string) float64 {
	t.Helper()
	var sum float64
	lines := bufio.NewScanner(page)
	for lines.Scan() {
		i := strings.LastIndexByte(lines.Text(), ' ')
		if i < 0 {
			continue
		}
		series, value := lines.Text()[:i], lines.Text()[i+1:]
		other := func(label string) bool { return !strings.Contains(series, label) }
		if series != name && !strings.HasPrefix(series, name+"{") || slices.ContainsFunc(labels, other) {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		require.NoError(t, err, lines.Text())
		sum += v
	}
	require.NoError(t, lines.Err())
	return sum
}
