package gate

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A proxy passes on HTTP/1.1, HTTP/2 without TLS, what is streamed, trailers and upgrades.
func TestProxy(t *testing.T) {
	next := make(chan struct{})
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	inner := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "echo" {
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "echo")
			w.WriteHeader(http.StatusSwitchingProtocols)
			conn, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer func() { _ = conn.Close() }()
			line, _ := buffered.ReadString('\n')
			_, _ = io.WriteString(conn, "echo "+line)
			return
		}
		w.Header().Set("Trailer", "Sum")
		_, _ = fmt.Fprintln(w, r.Proto, r.Host, r.Header.Get("X-Forwarded-For"))
		w.(http.Flusher).Flush()
		<-next
		_, _ = io.WriteString(w, "end\n")
		w.Header().Set("Sum", "7")
	}))
	inner.Config.Protocols = protocols
	inner.Start()
	defer inner.Close()
	var failures []error
	g := open(t, func(o *Options) { o.Limit = 2 })
	proxy, outer := proxied(t, g, func(o *ProxyOptions) {
		o.Target, o.Upgrades = inner.URL, 1
		o.Failed = func(err error) { failures = append(failures, err) }
	})
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		p := new(http.Protocols)
		p.SetHTTP1(version == "HTTP/1.1")
		p.SetUnencryptedHTTP2(version == "HTTP/2.0")
		client := &http.Client{Transport: &http.Transport{Protocols: p}}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, outer+"/x", strings.NewReader("body"))
		require.NoError(t, err)
		request.Host = "shop.example.com"
		response, err := client.Do(request)
		require.NoError(t, err)
		lines := bufio.NewReader(response.Body)
		line, err := lines.ReadString('\n')
		require.NoError(t, err, "the first part comes before the second is written")
		assert.Equal(t, version+" shop.example.com 127.0.0.1\n", line)
		next <- struct{}{}
		rest, err := io.ReadAll(lines)
		require.NoError(t, err)
		assert.Equal(t, "end\n", string(rest))
		assert.Equal(t, "7", response.Trailer.Get("Sum"))
		require.NoError(t, response.Body.Close())
		client.CloseIdleConnections()
	}

	conn, err := net.Dial("tcp", strings.TrimPrefix(outer, "http://"))
	require.NoError(t, err)
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	require.NoError(t, err)
	lines := bufio.NewReader(conn)
	response, err := http.ReadResponse(lines, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, response.StatusCode)
	inside, _, _ := g.Now()
	assert.Equal(t, []int{0, 1, 1}, []int{inside, proxy.Upgraded(), proxy.Busy()}, "an upgraded connection has a limit of its own")
	second, err := http.NewRequestWithContext(t.Context(), http.MethodGet, outer, nil)
	require.NoError(t, err)
	second.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}
	full, err := http.DefaultClient.Do(second)
	require.NoError(t, err)
	require.NoError(t, full.Body.Close())
	assert.Equal(t, http.StatusServiceUnavailable, full.StatusCode)
	_, err = io.WriteString(conn, "hello\n")
	require.NoError(t, err)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "echo hello\n", line)
	require.NoError(t, conn.Close())
	require.NoError(t, response.Body.Close())
	require.Eventually(t, func() bool { return proxy.Busy() == 0 }, 5*time.Second, time.Millisecond)

	inner.Close()
	gone, err := http.Get(outer)
	require.NoError(t, err)
	require.NoError(t, gone.Body.Close())
	assert.Equal(t, http.StatusBadGateway, gone.StatusCode)
	assert.Len(t, failures, 1)
	for _, bad := range []string{"", "127.0.0.1:80", "https://a", "http://", "http://a/?b", "http://u@a", "http://a/b"} {
		o := DefaultProxyOptions()
		o.Target = bad
		_, err := NewProxy(g, o)
		require.Error(t, err, bad)
	}
}

// proxied serves a proxy until the test ends.
func proxied(t *testing.T, g *Gate, set func(*ProxyOptions)) (p *Proxy, url string) {
	t.Helper()
	o := DefaultProxyOptions()
	set(&o)
	p, err := NewProxy(g, o)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- p.Serve(l) }()
	t.Cleanup(func() {
		late, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		p.Shutdown(late)
		assert.NoError(t, <-served)
	})
	return p, "http://" + l.Addr().String()
}
