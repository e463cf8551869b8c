//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// An APIProxy is a proxy between a program and the API server. It counts the
// bindings that the API server took, and delays requests on demand of a test.
type APIProxy struct {
	Kubeconfig string // with the address of the proxy

	mu      sync.Mutex
	bound   map[string]int           // by namespace/name
	match   func(*http.Request) bool // the requests that may be held or lost
	held    int                      // of those, that wait
	inside  int                      // that the API server has
	late    int                      // that lost their caller
	open    chan struct{}            // closed = they pass
	lag     func(path string, stream int) time.Duration
	refuse  func(*http.Request) bool
	lose    time.Duration            // after which the answer to one that was taken is lost; 0 = not
	watches map[string]int           // Streams so far, by path
	kept    map[string]chan struct{} // by path; closed = its watches pass
}

var bindingPath = regexp.MustCompile(`^/api/v1/namespaces/([^/]+)/pods/([^/]+)/binding$`)

func binding(r *http.Request) bool { return bindingPath.MatchString(r.URL.Path) }

// StartProxy starts a proxy for the user of a kubeconfig, a file in Dir or a path.
// Only bindings can be held or lost, unless [APIProxy.Match] selects others.
func (c *Cluster) StartProxy(t testing.TB, kubeconfig string) *APIProxy {
	t.Helper()
	if !filepath.IsAbs(kubeconfig) {
		kubeconfig = filepath.Join(c.Dir, kubeconfig)
	}
	target, err := url.Parse(c.Config.Host)
	require.NoError(t, err)
	tls, err := rest.TLSConfigFor(c.Config)
	require.NoError(t, err)
	p := &APIProxy{bound: map[string]int{}, match: binding, open: make(chan struct{}), watches: map[string]int{}, kept: map[string]chan struct{}{}}
	close(p.open)
	forward := transparent(target)
	forward.Transport = &http.Transport{TLSClientConfig: tls, ForceAttemptHTTP2: true}
	forward.FlushInterval, forward.ModifyResponse = -1, p.answered
	server := startServer(t, true, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		refused := p.refuse != nil && p.refuse(r)
		matches := p.match(r)
		p.mu.Unlock()
		if refused {
			http.Error(w, "refused by the test", http.StatusServiceUnavailable)
			return
		}
		if matches {
			if r = p.wait(r); r == nil {
				return
			}
			defer p.done()
		}
		forward.ServeHTTP(w, r)
	}))

	config, err := clientcmd.LoadFromFile(kubeconfig)
	require.NoError(t, err)
	for _, cluster := range config.Clusters {
		cluster.Server = server.URL
		cluster.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	}
	p.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*config, p.Kubeconfig))
	return p
}

// transparent is a proxy to a URL. Its caller sees the same as without one: an error ends the connection.
func transparent(target *url.URL) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorLog:     quiet,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
}

var quiet = log.New(io.Discard, "", 0)

// startServer starts a server that ends with the test, as do its connections. With TLS, clients show it their tokens.
func startServer(t testing.TB, tls bool, handler http.Handler) *httptest.Server {
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = quiet
	start := server.Start
	if tls {
		start = server.StartTLS
	}
	start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server
}

// Match has Hold and SetLose speak of other requests than bindings.
func (p *APIProxy) Match(match func(*http.Request) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.match = match
}

// Hold makes bindings wait until the returned function is called. Of those whose
// caller leaves meanwhile, the API server still gets every other, as if they had
// been sent before.
func (p *APIProxy) Hold() (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = make(chan struct{})
	return sync.OnceFunc(func() { close(p.open) })
}

// wait holds up a binding; nil = its caller has left, and it is not sent.
func (p *APIProxy) wait(r *http.Request) *http.Request {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil
	}
	// A sent request is not withdrawn. A context that cannot end would let the
	// reverse proxy look after the caller by itself.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), time.Minute)
	context.AfterFunc(ctx, cancel)
	sent := r.Clone(ctx)
	sent.Body = io.NopCloser(bytes.NewReader(body))
	p.mu.Lock()
	open := p.open
	p.held++
	p.mu.Unlock()
	gone := false
	select {
	case <-open:
	case <-r.Context().Done():
		gone = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held--
	if gone {
		if p.late++; p.late%2 == 0 {
			return nil
		}
	}
	p.inside++
	return sent
}

func (p *APIProxy) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inside--
}

// answered counts bindings and delays watches.
func (p *APIProxy) answered(r *http.Response) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	path := r.Request.URL.Path
	if m := bindingPath.FindStringSubmatch(path); m != nil && r.StatusCode == http.StatusCreated {
		p.bound[m[1]+"/"+m[2]]++
	}
	if lose := p.lose; lose > 0 && r.StatusCode < 300 && p.match(r.Request) {
		p.mu.Unlock()
		time.Sleep(lose)
		p.mu.Lock()
		return errors.New("lost")
	}
	if r.Request.URL.Query().Get("watch") != "" && r.StatusCode == http.StatusOK {
		p.watches[path]++
		r.Body = p.delayed(r.Body, path, p.watches[path])
	}
	return nil
}

// SetLag sets how long after the API server sent it an event of a watch arrives;
// stream counts the watches of a path from 1.
func (p *APIProxy) SetLag(lag func(path string, stream int) time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lag = lag
}

// HoldWatches keeps back the events of the watches of a path until the returned
// function is called, or the test ends.
func (p *APIProxy) HoldWatches(t testing.TB, path string) (release func()) {
	t.Helper()
	kept := make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept[path] = kept
	release = sync.OnceFunc(func() { close(kept) })
	t.Cleanup(release) // the proxy cannot end before
	return release
}

// SetRefuse sets which requests are answered with an error.
func (p *APIProxy) SetRefuse(refuse func(*http.Request) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = refuse
}

// SetLose has the answers to bindings lost after a while; 0 ends that.
func (p *APIProxy) SetLose(after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = after
}

// WaitHeld waits until n bindings wait, and the API server has answered the others.
func (p *APIProxy) WaitHeld(t testing.TB, n int) {
	t.Helper()
	Wait(t, "bindings under way", func() (string, bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return fmt.Sprintf("%d wait, the API server has %d", p.held, p.inside), p.held >= n && p.inside == 0
	})
}

// RequireBoundOnce fails the test when the API server took a pod's binding twice.
func (p *APIProxy) RequireBoundOnce(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	require.NotEmpty(t, p.bound)
	for pod, times := range p.bound {
		require.Equal(t, 1, times, pod)
	}
}

// A piece of a stream, and when it may be read.
type piece struct {
	text []byte
	due  time.Time
	err  error
}

type delayedBody struct {
	io.Closer
	pieces chan piece
	now    piece
	wait   func() // while the watches of the path are held
}

func (p *APIProxy) delayed(body io.ReadCloser, path string, stream int) io.ReadCloser {
	d := &delayedBody{Closer: body, pieces: make(chan piece, 100_000)}
	d.wait = func() {
		p.mu.Lock()
		kept := p.kept[path]
		p.mu.Unlock()
		if kept != nil {
			<-kept
		}
	}
	go func() {
		defer close(d.pieces)
		for {
			buf := make([]byte, 32<<10)
			n, err := body.Read(buf)
			p.mu.Lock()
			lag := time.Duration(0)
			if p.lag != nil {
				lag = p.lag(path, stream)
			}
			p.mu.Unlock()
			d.pieces <- piece{buf[:n], time.Now().Add(lag), err}
			if err != nil {
				return
			}
		}
	}()
	return d
}

// Read implements [io.Reader].
func (d *delayedBody) Read(buf []byte) (int, error) {
	for len(d.now.text) == 0 {
		if d.now.err != nil {
			return 0, d.now.err
		}
		next, ok := <-d.pieces
		if !ok {
			return 0, io.EOF
		}
		time.Sleep(time.Until(next.due))
		d.wait()
		d.now = next
	}
	n := copy(buf, d.now.text)
	d.now.text = d.now.text[n:]
	return n, nil
}

// Streams is the number of watches of a path so far.
func (p *APIProxy) Streams(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.watches[path]
}
