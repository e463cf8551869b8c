package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// startPod is a server of HTTP/1.1 and HTTP/2.
func startPod(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	pod := httptest.NewUnstartedServer(handler)
	pod.Config.Protocols = new(http.Protocols)
	pod.Config.Protocols.SetHTTP1(true)
	pod.Config.Protocols.SetUnencryptedHTTP2(true)
	pod.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 1000}
	pod.Start()
	t.Cleanup(pod.Close)
	return pod.Listener.Addr().String()
}

// clientOfTwo has one connection of HTTP/2.
func clientOfTwo(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{StrictMaxConcurrentRequests: true}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}
}

func dial(t *testing.T, address, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	_, err = io.WriteString(conn, text)
	require.NoError(t, err)
	return conn
}

// TestSlowBodies: callers that send half of a body and no more do not keep others out.
func TestSlowBodies(t *testing.T) {
	half := func(head string) func(*testing.T, string) {
		return func(t *testing.T, address string) {
			dial(t, address, "POST / HTTP/1.1\r\nHost: a\r\n"+head)
		}
	}
	for name, send := range map[string]func(*testing.T, string){
		"length":          half("Content-Length: 10\r\n\r\nhalf"),
		"chunks":          half("Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"),
		"within a chunk":  half("Transfer-Encoding: chunked\r\n\r\nff\r\nhalf"),
		"before trailers": half("Transfer-Encoding: chunked\r\n\r\n0\r\n"),
		"nothing of it":   half("Content-Length: 10\r\n\r\n"),
		"HTTP/2": func(t *testing.T, address string) {
			body, in := io.Pipe()
			client := clientOfTwo(t)
			ctx, stop := context.WithCancel(context.Background())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/", body)
				if err != nil {
					return
				}
				if answer, err := client.Do(r); err == nil {
					_ = answer.Body.Close()
				}
			}()
			_, err := io.WriteString(in, "half")
			require.NoError(t, err)
			t.Cleanup(func() {
				stop()
				_ = in.Close()
				<-ended
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := startPod(t, func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.Copy(io.Discard, r.Body); err == nil {
					_, _ = io.WriteString(w, "whole")
				}
			})
			gate := startGate(t, pod, "--limit", "4", "--queue", "10", "--wait", "1s")
			for range 4 {
				send(t, gate.listen)
			}
			time.Sleep(50 * time.Millisecond)
			begun := time.Now()
			answer, err := http.Post("http://"+gate.listen+"/", "text/plain", strings.NewReader("whole"))
			require.NoError(t, err)
			defer func() { _ = answer.Body.Close() }()
			assert.Equal(t, 200, answer.StatusCode)
			assert.Less(t, time.Since(begun), 500*time.Millisecond)
		})
	}
}

// TestSlowBody: a body that is slower than --body-rate or takes longer than --body-longest ends with 408.
func TestSlowBody(t *testing.T) {
	pod := startPod(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	for name, flags := range map[string][]string{
		"rate":               {"--body-rate", "1000", "--limit", "4"},
		"longest":            {"--body-rate", "0", "--body-longest", "300ms", "--limit", "4"},
		"longest, at once":   {"--body-rate", "0", "--body-longest", "300ms"},
		"longest, by pauses": {"--body-rate", "0", "--body-longest", "1500ms", "--limit", "4"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := startGate(t, pod, flags...)
			conn := dial(t, gate.listen, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n")
			go func() {
				for { // 100 bytes a second
					time.Sleep(10 * time.Millisecond)
					if _, err := conn.Write([]byte("x")); err != nil {
						return
					}
				}
			}()
			line, err := bufio.NewReader(conn).ReadString('\n')
			require.NoError(t, err)
			assert.Contains(t, line, " 408 ")
			assert.Eventually(t, func() bool { return gate.value("sigma_gate_inside") == 0 }, 2*time.Second, 10*time.Millisecond)
		})
	}
}

// TestHeaderBytes: what unfinished heads take is bounded, and others are answered meanwhile.
func TestHeaderBytes(t *testing.T) {
	const connections, headBytes, most = 200, 900_000, 64 << 20
	gate := startGate(t, startPod(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	head := []byte("GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X-Long: "+strings.Repeat("y", 992)+"\r\n", headBytes/1002))
	used := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc + m.StackInuse)
	}
	before := used()
	conns := make([]net.Conn, connections)
	var group sync.WaitGroup
	for i := range conns {
		conn, err := net.Dial("tcp", gate.listen)
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		conns[i] = conn
		group.Go(func() {
			_ = conn.SetWriteDeadline(time.Now().Add(2 * time.Second))
			_, _ = conn.Write(head)
		})
	}
	group.Wait()
	time.Sleep(100 * time.Millisecond)
	assert.Less(t, used()-before, int64(most), "bytes")
	code, text := get("http://" + gate.listen + "/")
	assert.Equal(t, []any{200, "ok"}, []any{code, text})
}

// TestUpgradesAreApart: upgraded connections have a limit of their own, --upgrades.
func TestUpgradesAreApart(t *testing.T) {
	pod := startPod(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			_, _ = io.WriteString(w, "ok")
			return
		}
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "echo")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.Copy(conn, buffered)
	})
	upgrade := func(gate *runningGate) (net.Conn, int) {
		conn := dial(t, gate.listen, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		_ = answer.Body.Close()
		return conn, answer.StatusCode
	}
	t.Run("requests", func(t *testing.T) {
		gate := startGate(t, pod, "--limit", "1", "--queue", "0")
		for range 3 {
			conn, code := upgrade(gate)
			defer func() { _ = conn.Close() }()
			require.Equal(t, http.StatusSwitchingProtocols, code)
			code, text := get("http://" + gate.listen + "/")
			require.Equal(t, []any{200, "ok"}, []any{code, text})
		}
		assert.Zero(t, gate.value("sigma_gate_inside"))
	})
	t.Run("limit", func(t *testing.T) {
		gate := startGate(t, pod, "--limit", "1", "--queue", "0", "--upgrades", "2")
		first, code := upgrade(gate)
		require.Equal(t, http.StatusSwitchingProtocols, code)
		second, code := upgrade(gate)
		defer func() { _ = second.Close() }()
		require.Equal(t, http.StatusSwitchingProtocols, code)
		third, code := upgrade(gate)
		_ = third.Close()
		require.Equal(t, http.StatusServiceUnavailable, code)
		require.NoError(t, first.Close())
		require.Eventually(t, func() bool {
			conn, code := upgrade(gate)
			_ = conn.Close()
			return code == http.StatusSwitchingProtocols
		}, 2*time.Second, 10*time.Millisecond, "one has ended")
	})
}

// failedCodes are those of gRPC that mpa/gate/rpc counts as failures of the server.
var failedCodes = map[int]bool{2: true, 4: true, 8: true, 13: true, 14: true, 15: true}

// TestGRPCFailures: calls that end with a code of the server's fault are counted as failed.
func TestGRPCFailures(t *testing.T) {
	pod := startPod(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		if r.URL.Path == "/trailers-only" {
			w.Header().Set("Grpc-Status", r.Header.Get("X-Code"))
			return
		}
		_, _ = w.Write([]byte{0, 0, 0, 0, 2, 1, 2})
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", r.Header.Get("X-Code"))
	})
	for _, form := range []string{"/trailers-only", "/after-messages"} {
		for _, content := range []string{"application/grpc", "application/grpc+proto", "text/plain"} {
			t.Run(form+" "+content, func(t *testing.T) {
				gate := startGate(t, pod, "--limit", "4")
				client := clientOfTwo(t)
				answered, failed := 0, 0
				for code := range 17 {
					r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+gate.listen+form, strings.NewReader("\x00\x00\x00\x00\x00"))
					require.NoError(t, err)
					r.Header = http.Header{"Content-Type": {content}, "Te": {"trailers"}, "X-Code": {fmt.Sprint(code)}}
					answer, err := client.Do(r)
					require.NoError(t, err)
					_, err = io.Copy(io.Discard, answer.Body)
					require.NoError(t, err)
					_ = answer.Body.Close()
					at := answer.Trailer
					if form == "/trailers-only" {
						at = answer.Header
					}
					require.Equal(t, fmt.Sprint(code), at.Get("Grpc-Status"))
					if failedCodes[code] && content != "text/plain" {
						failed++
					} else {
						answered++
					}
				}
				assert.Eventually(t, func() bool { return gate.totals("answered", "failed") == 17 }, 2*time.Second, 5*time.Millisecond)
				assert.Equal(t, []int{answered, failed}, []int{gate.totals("answered"), gate.totals("failed")}, "answered, failed")
			})
		}
	}
}

// TestStreams: calls on one connection of HTTP/2 reach the server up to the limit.
func TestStreams(t *testing.T) {
	const calls, limit = 600, 400
	var inside, most atomic.Int64
	full, end := make(chan struct{}), make(chan struct{})
	reached := sync.OnceFunc(func() { close(full) }) // the calls after the first ones may reach it again
	pod := startPod(t, func(http.ResponseWriter, *http.Request) {
		now := inside.Add(1)
		for {
			before := most.Load()
			if now <= before || most.CompareAndSwap(before, now) {
				break
			}
		}
		if now == limit {
			reached()
		}
		<-end
		inside.Add(-1)
	})
	gate := startGate(t, pod, "--limit", fmt.Sprint(limit), "--queue", "1000")
	client := clientOfTwo(t)
	var group sync.WaitGroup
	var good atomic.Int64
	for range calls {
		group.Go(func() {
			answer, err := client.Get("http://" + gate.listen + "/")
			if err != nil {
				return
			}
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				good.Add(1)
			}
		})
	}
	select {
	case <-full:
	case <-time.After(3 * time.Second):
		assert.Fail(t, "the limit is not reached", "%d at once", most.Load())
	}
	if !t.Failed() {
		assert.Eventually(t, func() bool { return gate.value("sigma_gate_waiting") == calls-limit }, 2*time.Second, 10*time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond)
	assert.LessOrEqual(t, most.Load(), int64(limit))
	close(end)
	group.Wait()
	assert.Equal(t, int64(calls), good.Load())
}
