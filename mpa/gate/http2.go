package gate

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"
)

// least is the smallest that HTTP/2 allows for what a connection holds of bodies: a server has many.
const least = 64 << 10

// An http2Server passes on what comes by HTTP/2 without TLS.
type http2Server struct {
	proxy  *Proxy
	to     *url.URL
	server *http.Server
	pass   *httputil.ReverseProxy
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	// coming bounds the requests whose bodies have not come.
	coming chan struct{}
}

func newHTTP2(p *Proxy, to *url.URL) *http2Server {
	only := new(http.Protocols)
	only.SetUnencryptedHTTP2(true)
	s := &http2Server{
		proxy: p, to: to, conns: make(chan net.Conn), closed: make(chan struct{}),
		coming: make(chan struct{}, p.options.Connections),
	}
	s.server = &http.Server{
		Handler: s, Protocols: only, MaxHeaderBytes: mostHead, ReadHeaderTimeout: headTime, IdleTimeout: idleTime,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:      MostLimit, // callers wait in the gate's queue, where they are seen
			MaxDecoderHeaderTableSize: 4 << 10, MaxReceiveBufferPerConnection: least, MaxReceiveBufferPerStream: least,
		},
		ErrorLog: log.New(io.Discard, "", 0), // a line for each caller that breaks off
	}
	s.pass = &httputil.ReverseProxy{
		Rewrite: s.rewrite,
		Transport: answers{&http.Transport{
			Protocols: only, DisableCompression: true, IdleConnTimeout: serverIdle,
			DialContext: (&net.Dialer{Timeout: dialTime}).DialContext,
		}},
		ErrorLog:      s.server.ErrorLog,
		FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			c := callOf(r)
			c.failed = err
			status := http.StatusBadGateway
			if cause := (*refusal)(nil); errors.As(context.Cause(r.Context()), &cause) {
				status, c.slow = cause.status, true
			}
			w.WriteHeader(status)
		},
	}
	return s
}

// A handed connection is one whose first bytes have been read.
type handed struct {
	net.Conn
	before []byte
	once   sync.Once
	closed chan struct{}
}

// Read implements [net.Conn].
func (h *handed) Read(b []byte) (int, error) {
	if len(h.before) > 0 {
		n := copy(b, h.before)
		h.before = h.before[n:]
		return n, nil
	}
	return h.Conn.Read(b)
}

// Close implements [net.Conn].
func (h *handed) Close() error {
	h.once.Do(func() { close(h.closed) })
	return h.Conn.Close()
}

// take serves a connection that begins with the preface of HTTP/2 until it ends.
func (s *http2Server) take(c *conn) {
	_ = c.net.SetDeadline(time.Time{})
	h := &handed{Conn: c.net, before: append([]byte(nil), c.in.bytes()...), closed: make(chan struct{})}
	c.in.discard(len(h.before))
	c.in.shrink()
	select {
	case s.conns <- h:
		<-h.closed
	case <-s.closed:
	}
}

// An inbox is a listener of connections that are handed over.
type inbox struct {
	*http2Server
	address net.Addr
}

// Accept implements [net.Listener].
func (i inbox) Accept() (net.Conn, error) {
	select {
	case c := <-i.conns:
		return c, nil
	case <-i.closed:
		return nil, net.ErrClosed
	}
}

// Addr implements [net.Listener].
func (i inbox) Addr() net.Addr { return i.address }

// Close implements [net.Listener].
func (i inbox) Close() error {
	i.once.Do(func() { close(i.closed) })
	return nil
}

func (s *http2Server) serve(address net.Addr) { _ = s.server.Serve(inbox{s, address}) }

func (s *http2Server) shutdown(ctx context.Context) { _ = s.server.Shutdown(ctx) }

func (s *http2Server) close() { _ = s.server.Close() }

// A call is a request and its answer.
type call struct {
	w        http.ResponseWriter
	proxy    *Proxy
	body     *spool
	response *http.Response
	ended    bool // the server has ended its answer
	slow     bool // the gate gave up the body
	failed   error
}

type callKey struct{}

func callOf(r *http.Request) *call { return r.Context().Value(callKey{}).(*call) }

// rewrite leaves a request as it came.
func (s *http2Server) rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = s.to.Scheme, s.to.Host, r.In.Host
	r.Out.URL.RawQuery, r.Out.URL.ForceQuery = r.In.URL.RawQuery, r.In.URL.ForceQuery
	if path, _, _ := strings.Cut(r.In.RequestURI, "?"); !strings.HasPrefix(path, "//") {
		r.Out.URL.Opaque = path
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Proxy-Authorization"} {
		if values, ok := r.In.Header[name]; ok {
			r.Out.Header[name] = append([]string(nil), values...)
		}
	}
	caller, _, err := net.SplitHostPort(r.In.RemoteAddr)
	if err != nil || s.proxy.options.Forwarded == ForwardedKeep {
		return
	}
	if list := r.Out.Header["X-Forwarded-For"]; len(list) == 0 {
		r.Out.Header["X-Forwarded-For"] = []string{caller}
	} else if last := &list[len(list)-1]; *last == "" {
		*last = caller
	} else {
		*last += ", " + caller
	}
	if s.proxy.options.Forwarded == ForwardedAll {
		for name, value := range map[string]string{"X-Forwarded-Host": r.In.Host, "X-Forwarded-Proto": "http"} {
			if _, ok := r.In.Header[name]; !ok {
				r.Out.Header[name] = []string{value}
			}
		}
	}
}

// answers passes answers on as they came.
type answers struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	c := callOf(r)
	response, err := a.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	c.response = response
	c.body.answered()
	to := c.w.Header()
	for _, name := range []string{"Date", "Content-Type"} { // the server would add them
		if _, ok := response.Header[name]; !ok {
			to[name] = nil
		}
	}
	if values, ok := response.Header["Proxy-Authenticate"]; ok {
		to["Proxy-Authenticate"] = values
	}
	if c.proxy.closes() {
		to.Set("Connection", "close")
	}
	response.Body = &ending2{response.Body, c}
	return response, nil
}

// ending2 notes the end of an answer.
type ending2 struct {
	io.ReadCloser
	call *call
}

// Read implements [io.Reader].
func (e *ending2) Read(b []byte) (int, error) {
	n, err := e.ReadCloser.Read(b)
	if err == io.EOF {
		e.call.ended = true
	}
	return n, err
}

// ServeHTTP implements [http.Handler].
func (s *http2Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g := s.proxy.gate
	refused := func(status int, text string) {
		if status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "1")
		}
		http.Error(w, text, status)
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	c := &call{w: w, proxy: s.proxy}
	open := false
	if r.Body != http.NoBody && r.ContentLength != 0 {
		c.body = newSpool(s.proxy, r, g.Limit() > 0)
		defer c.body.close()
		select {
		case s.coming <- struct{}{}:
		default:
			refused(http.StatusServiceUnavailable, "too many requests whose bodies have not come")
			return
		}
		err := c.body.wait(ctx, g)
		<-s.coming
		if r := (*refusal)(nil); errors.As(err, &r) {
			refused(r.status, r.text)
		}
		if err != nil {
			return
		}
		r.Body = c.body
		open = !c.body.isWhole()
	}
	v := g.try(open)
	if v == nil {
		var err error
		if v, err = g.visit(ctx, open); err != nil {
			refused(http.StatusServiceUnavailable, err.Error())
			return
		}
	}
	if open {
		go c.body.watch(ctx, v, func() { cancel(errSlow) })
	}
	done := false
	defer func() { s.leave(r, c, v, done) }()
	s.pass.ServeHTTP(w, r.WithContext(context.WithValue(ctx, callKey{}, c)))
	done = true
}

// leave ends the visit; done is false where the answer was broken off. Of a caller that has left
// the server got a reset: from then on nothing tells when it has ended, and the request keeps
// its place as long as it may.
func (s *http2Server) leave(r *http.Request, c *call, v *visit, done bool) {
	switch o := c.outcome(done); {
	case c.ended && done, !errors.Is(r.Context().Err(), context.Canceled) && !c.slow:
		v.leave(o)
		if o == Failed && c.failed != nil {
			s.proxy.failed(c.failed)
		}
	case c.ended || s.proxy.options.Cancel:
		v.leave(Gone)
	default:
		time.AfterFunc(s.proxy.options.Abandoned, func() { v.leave(Gone) })
	}
}

func (c *call) outcome(done bool) Outcome {
	if !done || c.failed != nil || c.response == nil || c.response.StatusCode >= http.StatusInternalServerError ||
		serverFault(c.response.Header.Get("Grpc-Status")) || serverFault(c.response.Trailer.Get("Grpc-Status")) {
		return Failed
	}
	return Answered
}
