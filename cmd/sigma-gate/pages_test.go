package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/serve/servetest"
	"github.com/sigma-scheduler/sigma/mpa/gate"
)

// served has the pages of a gate in a bubble; stop returns how long they took to end.
func served(t *testing.T) (metricsPort, adminPort *servetest.Listener, stop func() time.Duration) {
	t.Helper()
	g, err := gate.New(gate.DefaultOptions())
	require.NoError(t, err)
	o := &options{}
	o.ending, err = newEnding(time.Minute, time.Minute, drainToken, func() (int, int) { return 0, 0 })
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var ready atomic.Bool
	ready.Store(true)
	metricsPort, adminPort = servetest.Listen(), servetest.Listen()
	ended := make(chan error, 2)
	go func() { ended <- pages(ctx, metricsPort, o.metricsPages(ctx, &ready, g), metricsConnections) }()
	go func() { ended <- pages(ctx, adminPort, admin(ctx, g), adminConnections) }()
	return metricsPort, adminPort, func() time.Duration {
		began := time.Now()
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, <-ended)
		return time.Since(began)
	}
}

// asked returns the first line of the answer to GET path, and how long it took.
func asked(l *servetest.Listener, path string) (line string, took time.Duration) {
	began := time.Now()
	line = servetest.Line(l, "GET "+path+" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	return line, time.Since(began)
}

// Calls of /drain that wait keep probes and metrics from no connection. Callers that are silent do so for
// seconds at most, and endless heads are not held.
func TestPagesHaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, stop := served(t)
		for range 100 {
			go asked(l, "/drain")
		}
		synctest.Wait()
		for _, path := range []string{"/metrics", "/readyz", "/healthz"} {
			line, took := asked(l, path)
			require.Equal(t, "HTTP/1.1 200 OK", line, path)
			require.Zero(t, took, path)
		}
		for range metricsConnections {
			go servetest.Caller{Begin: "GET /metr"}.Cut(t, l)
		}
		synctest.Wait()
		line, took := asked(l, "/readyz")
		require.Equal(t, "HTTP/1.1 200 OK", line)
		require.LessOrEqual(t, took, pagePatience)
		line = servetest.Line(l, "GET /metrics HTTP/1.1\r\nHost: a\r\nA: "+strings.Repeat("x", 900<<10)+"\r\n\r\n")
		require.Equal(t, "HTTP/1.1 431 Request Header Fields Too Large", line)
		require.LessOrEqual(t, stop(), pageFinish)
	})
}

// What waits has the time that it asks for, and no longer than the gate.
func TestPagesThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, adminPort, stop := served(t)
		line, took := asked(adminPort, "/window?seconds=60")
		require.Equal(t, "HTTP/1.1 200 OK", line)
		require.Equal(t, gate.Longest, took)
		line, took = asked(l, "/drain")
		require.Equal(t, "HTTP/1.1 200 OK", line)
		require.Equal(t, time.Minute, took)

		conn := adminPort.Dial()
		go func() { _, _ = io.WriteString(conn, "PUT /limit HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n") }()
		began := time.Now()
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.NoError(t, conn.Close())
		require.Equal(t, http.StatusBadRequest, answer.StatusCode, "a limit that does not come")
		require.Equal(t, pagePatience, time.Since(began))

		go asked(l, "/drain")
		go asked(adminPort, "/window?seconds=60")
		go servetest.Caller{Begin: "GET /metr"}.Cut(t, l)
		synctest.Wait()
		require.LessOrEqual(t, stop(), pageFinish)
	})
}
