package gate

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
)

// answering is a server whose connections are handled one by one.
func answering(t *testing.T, do func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go do(c)
		}
	}()
	return "http://" + l.Addr().String()
}

func dialled(t *testing.T, url, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(10*time.Second)))
	_, err = io.WriteString(c, text)
	require.NoError(t, err)
	return c
}

func skipHead(r *bufio.Reader) string {
	line, err := r.ReadString('\n')
	for err == nil {
		var next string
		if next, err = r.ReadString('\n'); next == "\r\n" {
			break
		}
	}
	return line
}

// A server answers before it has read the body, and closes or resets its connection. What still
// comes of the body is never taken for a request.
func TestRestOfABodyIsNoRequest(t *testing.T) {
	var smuggled, early atomic.Int64
	server := answering(t, func(c net.Conn) {
		b := make([]byte, 60)
		n, _ := c.Read(b)
		if strings.Contains(string(b[:n]), "smuggled") {
			smuggled.Add(1)
		}
		_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
		_ = c.Close()
	})
	_, outer := proxied(t, open(t, func(o *Options) { o.Limit = 50 }), func(o *ProxyOptions) { o.Target = server })
	const size, rest = 300 << 10, "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
	for range 100 {
		c := dialled(t, outer, fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", size+len(rest)))
		_, _ = c.Write(make([]byte, size))
		if strings.Contains(skipHead(bufio.NewReader(c)), " 413 ") {
			early.Add(1)
		}
		time.Sleep(2 * time.Millisecond)
		_, _ = io.WriteString(c, rest)
		_, _ = io.Copy(io.Discard, c)
	}
	assert.Zero(t, smuggled.Load())
	assert.Positive(t, early.Load())
}

// An answer that ends with its connection ends the caller's, whose body has not come.
func TestEarlyAnswerThatEndsWithItsConnection(t *testing.T) {
	server := answering(t, func(c net.Conn) {
		skipHead(bufio.NewReader(c))
		_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\n\r\ntoo large")
		_ = c.Close()
	})
	_, outer := proxied(t, open(t, func(*Options) {}), func(o *ProxyOptions) { o.Target = server })
	text, err := io.ReadAll(dialled(t, outer, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n"))
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 413 Too Large\r\n\r\ntoo large", string(text))
}

// Bodies of requests that are refused are not held by their connections.
func TestRefusedBodiesAreNotHeld(t *testing.T) {
	end := make(chan struct{})
	server := answering(t, func(c net.Conn) {
		<-end
		_ = c.Close()
	})
	defer close(end)
	g := open(t, func(o *Options) { o.Limit, o.Queue = 1, 0 })
	p, outer := proxied(t, g, func(o *ProxyOptions) { o.Target = server })
	dialled(t, outer, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	require.Eventually(t, func() bool { inside, _, _ := g.Now(); return inside == 1 }, 5*time.Second, time.Millisecond)
	for range 10 {
		c := dialled(t, outer, fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", 200<<10, strings.Repeat("x", 200<<10)))
		require.Contains(t, skipHead(bufio.NewReader(c)), " 503 ")
	}
	require.Eventually(t, func() bool { return p.memory.held.Load() == 0 }, 5*time.Second, time.Millisecond)
}

// A server that agrees to HTTP/2 and closes leaves no request inside.
func TestUpgradeThatEnds(t *testing.T) {
	server := answering(t, func(c net.Conn) {
		skipHead(bufio.NewReader(c))
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
		_ = c.Close()
	})
	g := open(t, func(o *Options) { o.Limit = 1 })
	p, outer := proxied(t, g, func(o *ProxyOptions) { o.Target, o.Abandoned = server, 100*time.Millisecond })
	c := dialled(t, outer, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"+http2.ClientPreface)
	require.NoError(t, http2.NewFramer(c, nil).WriteSettings())
	require.Eventually(t, func() bool { return p.Busy() == 0 }, 8*time.Second, 10*time.Millisecond)
}

// twoServer is a server of HTTP/2 with the smallest windows.
func twoServer(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Config.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerConnection: 64 << 10, MaxReceiveBufferPerStream: 64 << 10}
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

func twoClient(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{StrictMaxConcurrentRequests: true}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 8 * time.Second}
}

// Bodies on one connection that wait for their turn do not take the window of the one that is in.
func TestUploadsOnOneConnection(t *testing.T) {
	server := twoServer(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, n)
	})
	for _, limit := range []int{0, 1, 2, 4} {
		g := open(t, func(o *Options) { o.Limit = limit })
		p, outer := proxied(t, g, func(o *ProxyOptions) { o.Target = server })
		client := twoClient(t)
		var all sync.WaitGroup
		for range 12 {
			all.Go(func() {
				text := ""
				answer, err := client.Post(outer, "text/plain", bytes.NewReader(make([]byte, 300<<10)))
				if err == nil {
					var b []byte
					b, err = io.ReadAll(answer.Body)
					_, text = answer.Body.Close(), string(b)
				}
				assert.Equal(t, "307200", text, "limit %d: %v", limit, err)
			})
		}
		all.Wait()
		require.Eventually(t, func() bool { return p.Busy() == 0 && p.memory.held.Load() == 0 && p.coming.Load() == 0 }, 5*time.Second, time.Millisecond)
	}
}

// Fields of streams that wait are counted: one connection cannot fill the memory.
func TestFieldsAreCounted(t *testing.T) {
	server := twoServer(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	p, outer := proxied(t, open(t, func(o *Options) { o.Limit = 1 }), func(o *ProxyOptions) { o.Target = server })
	client := twoClient(t)
	client.Timeout = 2 * time.Second
	var all sync.WaitGroup
	most := int64(0)
	for range 1000 {
		all.Go(func() {
			body, in := io.Pipe()
			defer func() { _ = in.Close() }()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, outer, body)
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("X", strings.Repeat("x", 50<<10))
			if answer, err := client.Do(r); err == nil {
				_ = answer.Body.Close()
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		all.Wait()
		close(ended)
	}()
	for waiting := true; waiting; {
		select {
		case <-ended:
			waiting = false
		case <-time.After(5 * time.Millisecond):
			most = max(most, p.memory.held.Load())
		}
	}
	assert.Positive(t, most)
	assert.LessOrEqual(t, most, int64(mostMemory))
	require.Eventually(t, func() bool { return p.memory.held.Load() == 0 && p.coming.Load() == 0 }, 5*time.Second, time.Millisecond)
}

// The pod's end does not cut off an answer of HTTP/2 that is still in the kernel.
func TestLastAnswerIsWhole(t *testing.T) {
	const size = 3 << 20
	server := twoServer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, size)) })
	_, outer := proxied(t, open(t, func(o *Options) { o.Limit = 2 }), func(o *ProxyOptions) {
		o.Target, o.Ends = server, func() bool { return true }
	})
	answer, err := twoClient(t).Get(outer)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	got, chunk := 0, make([]byte, 16<<10)
	for err == nil {
		var n int
		n, err = answer.Body.Read(chunk)
		got += n
		time.Sleep(time.Millisecond)
	}
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, size, got)
}

// Line feeds without carriage returns end no head: a caller with them is answered at once, not when the time for heads is
// over, and so is one whose server sends them.
func TestBareLineFeeds(t *testing.T) {
	for name, raw := range map[string]string{
		"only":                   "GET / HTTP/1.1\nHost: a\n\n",
		"after the request line": "GET / HTTP/1.1\r\nHost: a\n\n",
		"after the first field":  "GET / HTTP/1.1\r\nHost: a\r\nX: y\n\n",
		"before the request":     "\r\n\nGET / HTTP/1.1",
	} {
		t.Run(name, func(t *testing.T) {
			_, outer := proxied(t, open(t, func(*Options) {}), func(o *ProxyOptions) { o.Target = "http://127.0.0.1:1" })
			c := dialled(t, outer, raw)
			require.NoError(t, c.SetDeadline(time.Now().Add(headTime/2)))
			text, err := io.ReadAll(c)
			require.NoError(t, err)
			require.Regexp(t, "^HTTP/1.1 400 ", string(text))
		})
	}
	for name, raw := range map[string]string{
		"only":            "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
		"after the field": "HTTP/1.1 200 OK\r\nContent-Length: 0\n\n",
	} {
		t.Run("answer, "+name, func(t *testing.T) {
			server := answering(t, func(c net.Conn) {
				skipHead(bufio.NewReader(c))
				_, _ = io.WriteString(c, raw)
			})
			_, outer := proxied(t, open(t, func(*Options) {}), func(o *ProxyOptions) { o.Target = server })
			c := dialled(t, outer, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			require.NoError(t, c.SetDeadline(time.Now().Add(headTime/2)))
			head := make([]byte, len("HTTP/1.1 502"))
			_, err := io.ReadFull(c, head)
			require.NoError(t, err)
			require.Equal(t, "HTTP/1.1 502", string(head))
		})
	}
}

// A server of HTTP/1 that is called by HTTP/2 is reported as one.
func TestServerWithoutTwo(t *testing.T) {
	server := answering(t, func(c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	})
	failures := make(chan error, 1)
	_, outer := proxied(t, open(t, func(*Options) {}), func(o *ProxyOptions) {
		o.Target = server
		o.Failed = func(err error) {
			select {
			case failures <- err:
			default:
			}
		}
	})
	s := twoDialled(t, outer, http2.ClientPreface)
	awaitSettings(t, s)
	askTwo(t, s)
	require.EqualError(t, <-failures, "the target does not speak HTTP/2")
}
