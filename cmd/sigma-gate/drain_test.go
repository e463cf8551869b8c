package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

const drainToken = "only-this-pod-has-it"

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
	t.Setenv(tokenVariable, drainToken)
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

	hook := func(token string) chan time.Duration {
		took := make(chan time.Duration, 1)
		go func() {
			began := time.Now()
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+metrics+"/drain", http.NoBody)
			assert.NoError(t, err)
			request.Header.Set("Authorization", "Bearer "+token)
			answer, err := http.DefaultClient.Do(request)
			if assert.NoError(t, err) {
				assert.Equal(t, 200, answer.StatusCode)
				_ = answer.Body.Close()
			}
			took <- time.Since(began)
		}()
		return took
	}
	assert.InDelta(t, 1, (<-hook("another")).Seconds(), .5, "whoever has no token waits as long")
	require.False(t, closes(), "and changes nothing")
	assert.InDelta(t, 1, (<-hook(drainToken)).Seconds(), .5, "no request is inside after linger")
	require.True(t, closes())

	answers := make(chan int, 2)
	for range 2 { // one is inside and one waits
		go func() { code, _ := get("http://" + listen + "/wait"); answers <- code }()
	}
	<-begun
	assert.InDelta(t, 3, (<-hook(drainToken)).Seconds(), .7, "no longer than linger and drain")
	took := hook(drainToken)
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

// calls has an end of the server in a bubble of synctest, whose calls are counted by status.
type calls struct {
	*ending

	lines   []string
	answers map[int]int
	mu      sync.Mutex
	all     sync.WaitGroup
}

func newCalls(t *testing.T, token string, inside *atomic.Int64) *calls {
	t.Helper()
	e, err := newEnding(3*time.Second, 10*time.Second, token, func() (int, int) { return int(inside.Load()), 0 })
	require.NoError(t, err)
	c := &calls{ending: e, answers: map[int]int{}}
	e.log = func(format string, args ...any) { c.lines = append(c.lines, fmt.Sprintf(format, args...)) }
	return c
}

// call calls /drain from an address.
func (c *calls) call(ctx context.Context, from, header string) {
	c.all.Go(func() {
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/drain", http.NoBody)
		r.RemoteAddr = from + ":1234"
		r.Header.Set("Authorization", header)
		c.ServeHTTP(w, r)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.answers[w.Code]++
	})
}

// Whoever has no token waits as long as the hook, and changes nothing: neither answers nor the end of
// the gate, nor its log.
func TestDrainWithoutToken(t *testing.T) {
	for _, token := range []string{drainToken, ""} {
		for _, header := range []string{"", "Bearer ", "Bearer", "Bearer " + drainToken[1:], "Bearer " + drainToken + " ", drainToken, "Basic " + drainToken} {
			synctest.Test(t, func(t *testing.T) {
				var inside atomic.Int64
				inside.Store(1)
				c := newCalls(t, token, &inside)
				begun := time.Now()
				c.call(t.Context(), "10.0.0.1", header)
				time.Sleep(5 * time.Second)
				require.False(t, c.ends(), header)
				require.Equal(t, 3*time.Second, c.lingers(), header)
				inside.Store(0)
				c.all.Wait()
				require.Equal(t, 5*time.Second, time.Since(begun).Truncate(time.Second), "until none is inside")
				require.Equal(t, map[int]int{200: 1}, c.answers)
				require.Empty(t, c.lines, header)
				require.Empty(t, c.waits)
			})
		}
	}
}

// However often the hook is called, an end of the server is two lines, and the next end two more.
func TestDrainLogsEachEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inside atomic.Int64
		inside.Store(1)
		c := newCalls(t, drainToken, &inside)
		gone, cancel := context.WithCancel(t.Context())
		c.call(gone, "10.0.0.1", "Bearer "+drainToken)
		synctest.Wait()
		for range 1000 {
			c.call(t.Context(), "10.0.0.1", "Bearer "+drainToken)
		}
		time.Sleep(time.Second)
		cancel() // the first is not at its end
		require.True(t, c.ends())
		require.Zero(t, c.lingers())
		time.Sleep(4 * time.Second)
		inside.Store(0)
		c.all.Wait()
		two := []string{"the server is about to end", "0 requests inside and 0 waiting after 5s"}
		require.Equal(t, two, c.lines)
		c.call(t.Context(), "10.0.0.1", "Bearer "+drainToken)
		c.all.Wait()
		require.Equal(t, two, c.lines)

		time.Sleep(27 * time.Second)
		require.False(t, c.ends(), "the server did not end: its container was started again")
		require.Equal(t, 3*time.Second, c.lingers())
		inside.Store(2)
		c.call(t.Context(), "10.0.0.1", "Bearer "+drainToken)
		c.all.Wait()
		require.Equal(t, append(two, "the server is about to end", "2 requests inside and 0 waiting after 13s"), c.lines)
		require.Equal(t, map[int]int{200: 1003}, c.answers)
	})
}

// Calls without the token that wait are few, and those of one address fewer, so that the hook of the
// node has room. The token's own always have.
func TestDrainBoundsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inside atomic.Int64
		c := newCalls(t, drainToken, &inside)
		for range 100 {
			c.call(t.Context(), "10.0.0.1", "")
		}
		synctest.Wait()
		require.Equal(t, map[int]int{503: 100 - mostWaitsOfOne}, c.answers, "at once")
		c.call(t.Context(), "192.0.2.1", "")
		synctest.Wait()
		require.Len(t, c.waits, 2, "the node's")
		for i := range 100 {
			c.call(t.Context(), fmt.Sprintf("10.0.1.%d", i), "")
		}
		synctest.Wait()
		require.Equal(t, 201-mostWaits, c.answers[503])
		c.call(t.Context(), "10.0.0.1", "Bearer "+drainToken)
		c.all.Wait()
		require.Equal(t, map[int]int{503: 201 - mostWaits, 200: mostWaits + 1}, c.answers)
		require.Empty(t, c.waits)
		c.call(t.Context(), "10.0.0.1", "")
		c.all.Wait()
		require.Equal(t, mostWaits+2, c.answers[200], "places are free again")
	})
}

func TestBadToken(t *testing.T) {
	for token, want := range map[string]string{
		"short":                    "SIGMA_DRAIN_TOKEN: 5 bytes, want 16 or more, of ASCII without spaces",
		"sixteen bytes and more":   "SIGMA_DRAIN_TOKEN: 22 bytes, want 16 or more",
		"sixteen-bytes-and-more\n": "SIGMA_DRAIN_TOKEN: 23 bytes",
		"sixteen-bytes-and-möre":   "SIGMA_DRAIN_TOKEN: 23 bytes",
	} {
		t.Setenv(tokenVariable, token)
		cmd := command(&options{})
		cmd.SetArgs([]string{"--target", "http://a"})
		require.ErrorContains(t, cmd.ExecuteContext(t.Context()), want)
	}
}
