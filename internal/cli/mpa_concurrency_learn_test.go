package cli

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa/gate"
)

// TestLearnConcurrency learns the limit of a pod that answers four at a time, through a
// real gate, and leaves the former limit or the learned one.
func TestLearnConcurrency(t *testing.T) {
	o := gate.DefaultOptions()
	o.Limit = 2
	used, at := 0.0, time.Now()
	o.Usage = func() (gate.Usage, error) { // the wait is all there is
		used, at = used+.01*time.Since(at).Seconds(), time.Now()
		return gate.Usage{CPU: used, Quota: 1}, nil
	}
	g, err := gate.New(o)
	require.NoError(t, err)
	pool := make(chan struct{}, 4)
	pod := httptest.NewServer(g.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		pool <- struct{}{}
		time.Sleep(20 * time.Millisecond)
		<-pool
	})))
	defer pod.Close()
	admin := httptest.NewServer(g.Admin())
	defer admin.Close()
	file := filepath.Join(t.TempDir(), "windows.jsonl")
	learn := func(ctx context.Context, args ...string) (string, error) {
		var out, errs bytes.Buffer
		root := (&app{stdout: &out, stderr: &errs}).root()
		root.SetArgs(append([]string{"mpa", "concurrency", "learn", "--admin", admin.URL, "--window", "200ms", "--max", "32", "--quiet"}, args...))
		err := root.ExecuteContext(ctx)
		return out.String(), err
	}
	out, err := learn(t.Context(), "--url", pod.URL, "--timeout", "20s", "--out", file)
	require.NoError(t, err, out)
	assert.Contains(t, out, "in force    2 requests at once\n")
	assert.Regexp(t, `(?m)^limit +a second +inside +cores +failed +memory %\n +2 `, out)
	assert.Equal(t, 2, g.Limit())
	windows, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Contains(t, string(windows), `"limit":2,`)
	_, err = readWindows(file)
	require.NoError(t, err)

	out, err = learn(t.Context(), "--url", pod.URL, "--timeout", "20s", "--keep")
	require.NoError(t, err, out)
	assert.GreaterOrEqual(t, g.Limit(), 4, out)
	assert.Contains(t, out, fmt.Sprintf("in force    %d requests at once\n", g.Limit()))

	kept := g.Limit()
	_, err = learn(t.Context(), "--timeout", "1s")
	require.ErrorContains(t, err, "no request ended within 200ms")
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err = learn(ctx, "--url", pod.URL, "--out", file)
	require.ErrorContains(t, err, "interrupted: the limit is")
	assert.Equal(t, kept, g.Limit())
	after, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(windows), string(after), "windows of a run before are not lost to a run without a trial")

	for want, args := range map[string][]string{
		`--admin "localhost:9901": want http://HOST:PORT`: {"--admin", "localhost:9901"},
		"this is no gate":    {"--admin", pod.URL + "/?"},
		"connection refused": {"--admin", "http://127.0.0.1:1"},
		"--window 1ms --timeout 5m0s: want 100ms to 1m0s": {"--window", "1ms"},
		"max: 0, want": {"--max", "0"},
	} {
		_, err := learn(t.Context(), args...)
		require.ErrorContains(t, err, want, strings.Join(args, " "))
	}
}
