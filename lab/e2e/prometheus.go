//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
)

// Prometheus is a real server that scrapes once a second, and requires a password. It
// keeps its data over a Restart.
type Prometheus struct {
	*Process
	URL string // of its API, with the user and the password
}

var prometheusProgram = sync.OnceValues(func() (string, error) {
	build := exec.Command(filepath.Join(root, "lab", "prometheus", "build.sh"))
	build.Stderr = os.Stderr
	out, err := build.Output()
	return filepath.Join(strings.TrimSpace(string(out)), "prometheus"), err
})

// Timestamps on a page count, and a series that is no longer on a page ends at
// once: that is how [Feed.Freeze] and [Feed.Stop] differ.
const prometheusConfig = `
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [rules*.yml]
scrape_configs:
- job_name: sigma-scheduler
  honor_timestamps: true
  track_timestamps_staleness: true
  static_configs: [{targets: %s}]
`

const (
	prometheusUser     = "e2e"
	prometheusPassword = "e2e"
	// The hash of the password costs little time.
	prometheusWeb = `basic_auth_users: {e2e: "$2a$04$RRAkOLbPP/HybWBBtBYnm.IKhRvZg3ao43py/DeHL/b5STGFUG2di"}`
)

// PrometheusServers returns the recommender's flag for a list of servers: URLs by name, each
// with its user and password.
func PrometheusServers(t testing.TB, urls map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	secret, list := filepath.Join(dir, "password"), filepath.Join(dir, "servers.yaml")
	require.NoError(t, os.WriteFile(secret, []byte(prometheusPassword), 0o600))
	servers := []any{}
	for name, address := range urls {
		u, err := url.Parse(address)
		require.NoError(t, err)
		u.User = nil
		servers = append(servers, map[string]any{
			"name": name, "url": u.String(), "basic": map[string]any{"username": prometheusUser, "passwordFile": secret},
		})
	}
	text, err := json.Marshal(map[string]any{"servers": servers})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(list, text, 0o600))
	return "--prometheus-servers=" + list
}

// StartPrometheus starts a Prometheus that scrapes /metrics of the targets,
// host:port, and returns when it is ready.
func StartPrometheus(t testing.TB, targets ...string) *Prometheus {
	t.Helper()
	return StartPrometheusWith(t, nil, targets...)
}

// podsConfig acts like a PodMonitor for queue-proxy.
const podsConfig = `
global: {scrape_interval: 2s, scrape_timeout: 2s}
scrape_configs:
- job_name: queue-proxy
  proxy_url: %s
  http_sd_configs: [{url: %q, refresh_interval: 1s}]
`

// StartPrometheus starts one that scrapes queue-proxy in all pods.
func (p *LivePods) StartPrometheus(t testing.TB) *Prometheus {
	t.Helper()
	return startPrometheus(t, fmt.Appendf(nil, podsConfig, p.k.proxy.URL, p.discovery.URL), nil)
}

// StartPrometheusWith starts one that also evaluates the rules of files, once a second.
func StartPrometheusWith(t testing.TB, rules [][]byte, targets ...string) *Prometheus {
	t.Helper()
	list, err := json.Marshal(targets)
	require.NoError(t, err)
	return startPrometheus(t, fmt.Appendf(nil, prometheusConfig, list), rules)
}

func startPrometheus(t testing.TB, content []byte, rules [][]byte) *Prometheus {
	t.Helper()
	return startPrometheusAfter(t, func(string) {}, content, rules)
}

// startPrometheusAfter lets a function fill the data folder first.
func startPrometheusAfter(t testing.TB, fill func(data string), content []byte, rules [][]byte, flags ...string) *Prometheus {
	t.Helper()
	program, err := prometheusProgram()
	require.NoError(t, err)
	name := fmt.Sprintf("prometheus-%d", processes.Add(1))
	dir := filepath.Join(scratch(t), name)
	require.NoError(t, os.Mkdir(dir, 0o700))
	for i, content := range rules {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("rules%d.yml", i)), content, 0o600))
	}
	config, web := filepath.Join(dir, "prometheus.yml"), filepath.Join(dir, "web.yml")
	require.NoError(t, os.WriteFile(config, content, 0o600))
	require.NoError(t, os.WriteFile(web, []byte(prometheusWeb), 0o600))
	address := fmt.Sprintf("127.0.0.1:%d", FreePort(t))
	p := &Prometheus{URL: fmt.Sprintf("http://%s:%s@%s", prometheusUser, prometheusPassword, address)}
	data := filepath.Join(dir, "data")
	fill(data)
	p.Process = StartProcess(t, name, program, append(flags,
		"--config.file="+config,
		"--web.config.file="+web,
		"--storage.tsdb.path="+data,
		"--web.listen-address="+address,
	)...)
	p.WaitReady(t)
	return p
}

// WaitReady waits until the server answers queries, after a Restart too.
func (p *Prometheus) WaitReady(t testing.TB) {
	t.Helper()
	p.waitOK(t, func() (*http.Response, error) { return insecure.Get(p.URL + "/-/ready") })
}

// Query returns the present value of an expression from the Prometheus at a URL.
// Anything but exactly one sample is an error.
func Query(ctx context.Context, address, expression string) (float64, error) {
	client, err := api.NewClient(api.Config{Address: address})
	if err != nil {
		return 0, err
	}
	value, _, err := promv1.NewAPI(client).Query(ctx, expression, time.Time{})
	if err != nil {
		return 0, err
	}
	samples, ok := value.(model.Vector)
	if !ok || len(samples) != 1 {
		return 0, fmt.Errorf("%s: want one sample, got %q", expression, value)
	}
	return float64(samples[0].Value), nil
}

// A FaultProxy is a proxy in front of Prometheus.
type FaultProxy struct {
	URL string // with the user and the password of the server

	fault atomic.Pointer[Fault]
	met   atomic.Int64
}

// A Fault answers a request instead of the server; forward passes it on to the
// server.
type Fault func(w http.ResponseWriter, r *http.Request, forward http.Handler)

// StartFaultProxy starts a proxy, without a fault, before the server at a URL.
func StartFaultProxy(t testing.TB, target string) *FaultProxy {
	t.Helper()
	to, err := url.Parse(target)
	require.NoError(t, err)
	forward := transparent(to)
	p := &FaultProxy{}
	server := startServer(t, false, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fault := p.fault.Load()
		if fault == nil {
			forward.ServeHTTP(w, r)
			return
		}
		p.met.Add(1)
		// Only once the body is read does the server notice that the caller has
		// left.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		(*fault)(w, r, forward)
	}))
	own, err := url.Parse(server.URL)
	require.NoError(t, err)
	own.User = to.User
	p.URL = own.String()
	return p
}

// Set activates a fault for all later requests; nil ends it.
func (p *FaultProxy) Set(fault Fault) {
	if fault == nil {
		p.fault.Store(nil)
		return
	}
	p.fault.Store(&fault)
}

// Met is how many requests have met a fault so far.
func (p *FaultProxy) Met() int { return int(p.met.Load()) }

// Down ends the connection without an answer.
func Down(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }

// Unavailable answers with an error.
func Unavailable(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	http.Error(w, "refused by the test", http.StatusServiceUnavailable)
}

// Garbled breaks the answer off in its middle, with a good status.
func Garbled(w http.ResponseWriter, r *http.Request, forward http.Handler) {
	answer := record(r, forward)
	_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
}

// Slow holds every request up for a while.
func Slow(by time.Duration) Fault {
	return func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		select {
		case <-time.After(by):
			forward.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}
}

// Late answers as a server does whose data end a while ago: with the samples of
// then, and their times.
func Late(by time.Duration) Fault {
	return func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if err := r.ParseForm(); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		form := r.Form
		if strings.HasSuffix(r.URL.Path, "/query") && form.Get("time") == "" {
			form.Set("time", fmt.Sprint(float64(time.Now().UnixMilli())/1000))
		}
		for _, name := range []string{"time", "start", "end"} {
			if form.Get(name) == "" {
				continue
			}
			at, err := strconv.ParseFloat(form.Get(name), 64)
			if err != nil {
				http.Error(w, "the proxy wants times in seconds", http.StatusBadRequest)
				return
			}
			form.Set(name, strconv.FormatFloat(at-by.Seconds(), 'f', 3, 64))
		}
		if r.Method == http.MethodPost {
			body := form.Encode()
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		} else {
			r.URL.RawQuery = form.Encode()
		}
		forward.ServeHTTP(w, r)
	}
}

// Empty answers queries with no samples.
func Empty(w http.ResponseWriter, r *http.Request, forward http.Handler) {
	rewrite(w, r, forward, func([]any) []any { return []any{} })
}

// Answer replaces the value of every sample; it is written as in Prometheus' API:
// NaN, -1, +Inf.
func Answer(value string) Fault {
	set := func(sample any) { sample.([]any)[1] = value }
	return func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		rewrite(w, r, forward, func(series []any) []any {
			for _, s := range series {
				s := s.(map[string]any)
				if sample, ok := s["value"]; ok {
					set(sample)
				}
				values, _ := s["values"].([]any)
				for _, sample := range values {
					set(sample)
				}
			}
			return series
		})
	}
}

// rewrite changes the series of an answer that has some.
func rewrite(w http.ResponseWriter, r *http.Request, forward http.Handler, change func([]any) []any) {
	answer := record(r, forward)
	var body map[string]any
	if json.Unmarshal(answer.Body.Bytes(), &body) == nil {
		if data, ok := body["data"].(map[string]any); ok {
			if kind := data["resultType"]; kind == "vector" || kind == "matrix" {
				data["result"] = change(data["result"].([]any))
				answer.Body = new(bytes.Buffer)
				_ = json.NewEncoder(answer.Body).Encode(body) // it is decoded JSON
			}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

func record(r *http.Request, forward http.Handler) *httptest.ResponseRecorder {
	r.Header.Del("Accept-Encoding") // to be read here
	answer := httptest.NewRecorder()
	forward.ServeHTTP(answer, r)
	return answer
}
