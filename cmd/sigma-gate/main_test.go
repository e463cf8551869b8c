package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// freeAddress returns an address that it returns once, of a port below those that the kernel gives to
// outgoing connections: the callers of one gate would take the ports of the next.
func freeAddress(t testing.TB) string {
	t.Helper()
	for {
		address := fmt.Sprint("127.0.0.1:", 10000+rand.IntN(20000))
		if _, taken := addresses.LoadOrStore(address, true); taken {
			continue
		}
		if l, err := net.Listen("tcp", address); err == nil {
			require.NoError(t, l.Close())
			return address
		}
	}
}

var addresses sync.Map

func get(url string) (int, string) {
	response, err := http.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

// TestGate: requests pass by the limit of the file and of the admin port, metrics are
// there, and what is inside at SIGTERM is answered.
func TestGate(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			begun <- struct{}{}
			<-end
		}
		_, _ = io.WriteString(w, "pod")
	}))
	defer pod.Close()
	listen, admin, metrics := freeAddress(t), freeAddress(t), freeAddress(t)
	file := filepath.Join(t.TempDir(), "limit")
	require.NoError(t, os.WriteFile(file, []byte("3"), 0o600))
	o := &options{}
	cmd := command(o)
	cmd.SetArgs([]string{"--target", pod.URL, "--listen", listen, "--admin", admin, "--metrics", metrics, "--limit-file", file, "--linger", "0s", "--drain", "10s", "--queue", "0"})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	require.Eventually(t, func() bool { code, _ := get("http://" + metrics + "/readyz"); return code == 200 }, 10*time.Second, 10*time.Millisecond)
	require.Eventually(t, func() bool { _, text := get("http://" + admin + "/limit"); return text == "3\n" }, 10*time.Second, 10*time.Millisecond)

	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+admin+"/limit", strings.NewReader("1"))
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	first := make(chan string, 1)
	go func() { _, text := get("http://" + listen + "/wait"); first <- text }()
	<-begun
	code, text := get("http://" + listen + "/")
	assert.Equal(t, []any{503, "as many requests wait as may\n"}, []any{code, text})
	_, text = get("http://" + metrics + "/metrics")
	assert.Contains(t, text, "sigma_gate_limit 1\n")
	assert.Contains(t, text, "sigma_gate_inside 1\n")

	stop()
	require.Eventually(t, func() bool { code, _ := get("http://" + listen + "/"); return code == 0 }, 10*time.Second, 10*time.Millisecond)
	close(end)
	assert.Equal(t, "pod", <-first)
	require.NoError(t, <-ended)
}

func TestBadFlags(t *testing.T) {
	for want, args := range map[string][]string{
		"--target is needed":                      {},
		`--target "ftp://a": want http://HOST`:    {"--target", "ftp://a"},
		"--limit: -1, want 0 (any number)":        {"--target", "http://a", "--limit", "-1"},
		"--queue: -1, want 0 or more":             {"--target", "http://a", "--queue", "-1"},
		"--wait: -1s, want 0 or more":             {"--target", "http://a", "--wait", "-1s"},
		"--drain -1s, --linger 3s: want 0":        {"--target", "http://a", "--drain", "-1s"},
		"--admin :9901: want an address on loop":  {"--target", "http://a", "--admin", ":9901"},
		"--admin: address 9901: missing port":     {"--target", "http://a", "--admin", "9901"},
		"--cgroup: open /sys/fs/cgroup/cpuacct/n": {"--target", "http://a", "--cgroup", "no-such-group"},
		"--listen: listen tcp":                    {"--target", "http://a", "--listen", "256.0.0.1:1", "--metrics", "", "--admin", ""},
	} {
		cmd := command(&options{})
		cmd.SetArgs(args)
		require.ErrorContains(t, cmd.ExecuteContext(t.Context()), want, strings.Join(args, " "))
	}
}

// TestReadyByTarget: the gate is ready while its target takes connections, which other gates do not
// ask, and never after its end has begun.
func TestReadyByTarget(t *testing.T) {
	target := freeAddress(t)
	started := func(flags ...string) (ready func() int, stop func(), ended chan error) {
		metrics := freeAddress(t)
		cmd := command(&options{})
		cmd.SetArgs(append(flags, "--target", "http://"+target, "--listen", freeAddress(t), "--admin", "", "--metrics", metrics, "--linger", "1s"))
		ctx, stop := context.WithCancel(t.Context())
		ended = make(chan error, 1)
		go func() { ended <- cmd.ExecuteContext(ctx) }()
		require.Eventually(t, func() bool { code, _ := get("http://" + metrics + "/healthz"); return code == 200 }, 10*time.Second, 10*time.Millisecond)
		return func() int { code, _ := get("http://" + metrics + "/readyz"); return code }, stop, ended
	}
	plain, stopPlain, plainEnded := started()
	ready, stop, ended := started("--ready-by-target")
	require.Eventually(t, func() bool { return plain() == 200 }, 10*time.Second, 10*time.Millisecond)
	require.Equal(t, 503, ready(), "no server yet")
	l, err := net.Listen("tcp", target)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return ready() == 200 }, 10*time.Second, 10*time.Millisecond)
	require.NoError(t, l.Close())
	require.Equal(t, 503, ready(), "the server has ended")
	require.Equal(t, 200, plain())
	l, err = net.Listen("tcp", target)
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	require.Equal(t, 200, ready())
	stop()
	require.Eventually(t, func() bool { return ready() == 503 }, time.Second, time.Millisecond)
	for range 20 {
		require.Equal(t, 503, ready(), "at its end, though the server is there")
		time.Sleep(10 * time.Millisecond)
	}
	stopPlain()
	require.NoError(t, <-ended)
	require.NoError(t, <-plainEnded)
}

func TestBracketed(t *testing.T) {
	for target, want := range map[string]string{
		"http://fd00::1:8080":   "http://[fd00::1]:8080",
		"http://::1:80":         "http://[::1]:80",
		"http://[fd00::1]:8080": "http://[fd00::1]:8080",
		"http://10.0.0.1:8080":  "http://10.0.0.1:8080",
		"http://web:8080":       "http://web:8080",
		"http://web":            "http://web",
		"":                      "",
	} {
		require.Equal(t, want, bracketed(target))
	}
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 here")
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	o := &options{}
	command(o)
	o.target = "http://::1:" + port
	require.NoError(t, o.check())
	require.NoError(t, o.reached(t.Context()))
}
