package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// After SIGTERM requests are still taken for a while, as Services know late of it. Then what
// is inside has time to end: HTTP/1.1, HTTP/2 and a connection that was upgraded.
func TestDrain(t *testing.T) {
	begun, end := make(chan struct{}, 2), make(chan struct{})
	both := new(http.Protocols)
	both.SetHTTP1(true)
	both.SetUnencryptedHTTP2(true)
	pod := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Upgrade") == "echo":
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "echo")
			w.WriteHeader(http.StatusSwitchingProtocols)
			conn, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer func() { _ = conn.Close() }()
			_, _ = io.Copy(conn, buffered)
		case r.URL.Path == "/wait":
			begun <- struct{}{}
			<-end
			_, _ = io.WriteString(w, "late")
		}
	}))
	pod.Config.Protocols = both
	pod.Start()
	defer pod.Close()
	listen, metrics := freeAddress(t), freeAddress(t)
	cmd := command(&options{})
	cmd.SetArgs([]string{"--target", pod.URL, "--listen", listen, "--admin", "", "--metrics", metrics, "--linger", "1s", "--drain", "20s"})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	require.Eventually(t, func() bool { code, _ := get("http://" + metrics + "/readyz"); return code == 200 }, 10*time.Second, 10*time.Millisecond)

	conn, err := net.Dial("tcp", listen)
	require.NoError(t, err)
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	require.NoError(t, err)
	lines := bufio.NewReader(conn)
	response, err := http.ReadResponse(lines, nil)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	require.Equal(t, http.StatusSwitchingProtocols, response.StatusCode)
	answers := make(chan string, 2)
	for _, version := range []int{1, 2} {
		p := new(http.Protocols)
		p.SetHTTP1(version == 1)
		p.SetUnencryptedHTTP2(version == 2)
		client := &http.Client{Transport: &http.Transport{Protocols: p}}
		go func() {
			answer, err := client.Get("http://" + listen + "/wait")
			if err != nil {
				answers <- err.Error()
				return
			}
			defer func() { _ = answer.Body.Close() }()
			text, _ := io.ReadAll(answer.Body)
			answers <- answer.Proto + " " + string(text)
		}()
		<-begun
	}

	stop()
	require.Eventually(t, func() bool { code, _ := get("http://" + metrics + "/readyz"); return code == 503 }, time.Second, 5*time.Millisecond)
	code, _ := get("http://" + listen + "/")
	assert.Equal(t, 200, code, "a Service that does not know yet")
	require.Eventually(t, func() bool { code, _ := get("http://" + listen + "/"); return code == 0 }, 10*time.Second, 10*time.Millisecond)
	code, _ = get("http://" + metrics + "/metrics")
	assert.Equal(t, 200, code, "as long as requests are inside")
	close(end)
	assert.ElementsMatch(t, []string{"HTTP/1.1 late", "HTTP/2.0 late"}, []string{<-answers, <-answers})
	_, err = io.WriteString(conn, "still\n")
	require.NoError(t, err)
	line, err := lines.ReadString('\n')
	require.NoError(t, err, "an upgraded connection is not cut off")
	assert.Equal(t, "still\n", line)
	select {
	case err := <-ended:
		require.Fail(t, "it ended with a connection inside", "%v", err)
	case <-time.After(200 * time.Millisecond):
	}
	require.NoError(t, conn.Close())
	require.NoError(t, <-ended)
}

// The server ends after its gate: its hook waits until no request is inside, in which time new
// ones are let in and their callers told to go elsewhere. SIGTERM then finds the gate empty, and it
// does not wait for Services again.
func TestServerEndsAfterItsGate(t *testing.T) {
	begun, end := make(chan struct{}, 2), make(chan struct{})
	pod := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			begun <- struct{}{}
			<-end
		}
	}))
	defer pod.Close()
	listen, metrics := freeAddress(t), freeAddress(t)
	cmd := command(&options{})
	cmd.SetArgs([]string{"--target", pod.URL, "--listen", listen, "--admin", "", "--metrics", metrics, "--limit", "1", "--linger", "1s", "--drain", "2s"})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	require.Eventually(t, func() bool { code, _ := get("http://" + metrics + "/readyz"); return code == 200 }, 10*time.Second, 10*time.Millisecond)
	closes := func() bool {
		answer, err := http.Get("http://" + listen + "/")
		require.NoError(t, err)
		_ = answer.Body.Close()
		require.Equal(t, 200, answer.StatusCode)
		return answer.Close
	}
	require.False(t, closes())

	hook := func() chan time.Duration {
		took := make(chan time.Duration, 1)
		go func() {
			began := time.Now()
			code, _ := get("http://" + metrics + "/drain")
			assert.Equal(t, 200, code)
			took <- time.Since(began)
		}()
		return took
	}
	assert.InDelta(t, 1, (<-hook()).Seconds(), .5, "no request is inside after linger")
	require.True(t, closes())

	answers := make(chan int, 2)
	for range 2 { // one is inside and one waits
		go func() { code, _ := get("http://" + listen + "/wait"); answers <- code }()
	}
	<-begun
	assert.InDelta(t, 3, (<-hook()).Seconds(), .7, "no longer than linger and drain")
	took := hook()
	time.Sleep(1200 * time.Millisecond)
	close(end)
	assert.InDelta(t, 1.4, (<-took).Seconds(), .6, "as soon as none is inside or waits")
	assert.Equal(t, []int{200, 200}, []int{<-answers, <-answers})
	code, _ := get("http://" + metrics + "/readyz")
	assert.Equal(t, 200, code, "whoever calls the hook takes no pod out of a Service")

	stop()
	began := time.Now()
	require.NoError(t, <-ended)
	assert.Less(t, time.Since(began), 800*time.Millisecond, "no linger again")
}
