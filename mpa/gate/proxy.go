package gate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// ProxyOptions of a proxy.
type ProxyOptions struct {
	Target string // http://HOST:PORT
	// Abandoned is the longest time for which a request keeps its place after its caller has
	// left: until then it is inside while the server works on it.
	Abandoned time.Duration
	// Cancel ends a request at the server as soon as its caller has left, and its place is free.
	Cancel bool
	// BodyRate is the least rate of a body in bytes a second once a caller has had
	// [bodyGrace] to send; 0 = any. BodyLongest is its longest time; 0 = any time. Both
	// count the time alone in which the gate waits for the caller.
	BodyRate    int64
	BodyLongest time.Duration
	// Upgrades is the largest number of upgraded connections at once. They are no longer inside.
	Upgrades int
	// Connections at once; further ones wait to be accepted.
	Connections int
	Forwarded   Forwarded
	// Ends reports that the pod is about to end: answers then close their connections. nil = never.
	Ends func() bool
	// Failed, if set, is called for each request that the server gave no answer to.
	Failed func(error)
}

// DefaultProxyOptions are those of the command, without a target.
func DefaultProxyOptions() ProxyOptions {
	return ProxyOptions{
		Abandoned: 30 * time.Second, BodyRate: 500, BodyLongest: 10 * time.Minute,
		Upgrades: 1000, Connections: 4096, Forwarded: ForwardedAppend,
	}
}

// Forwarded selects the fields that a proxy adds.
type Forwarded string

const (
	// ForwardedAppend adds the caller's address to X-Forwarded-For.
	ForwardedAppend Forwarded = "append"
	// ForwardedKeep adds nothing.
	ForwardedKeep Forwarded = "keep"
	// ForwardedAll also adds X-Forwarded-Host and X-Forwarded-Proto to requests without.
	ForwardedAll Forwarded = "all"
)

// Check returns an error that names the flag of the command.
func (o *ProxyOptions) Check() error {
	to, err := url.Parse(o.Target)
	if err != nil {
		return fmt.Errorf("target %w", err)
	}
	if to.Scheme != "http" || to.Host == "" || to.User != nil || strings.Trim(to.Path, "/") != "" || to.RawQuery != "" || to.Fragment != "" {
		return fmt.Errorf("target %q: want http://HOST:PORT", o.Target)
	}
	switch {
	case o.Abandoned <= 0:
		return fmt.Errorf("abandoned %v: want more than 0", o.Abandoned)
	case o.BodyRate < 0:
		return fmt.Errorf("body-rate %d: want 0 (any) or more", o.BodyRate)
	case o.BodyLongest < 0:
		return fmt.Errorf("body-longest %v: want 0 (any time) or more", o.BodyLongest)
	case o.Upgrades < 0:
		return fmt.Errorf("upgrades %d: want 0 or more", o.Upgrades)
	case o.Connections < 1:
		return fmt.Errorf("connections %d: want 1 or more", o.Connections)
	case o.Forwarded != ForwardedAppend && o.Forwarded != ForwardedKeep && o.Forwarded != ForwardedAll:
		return fmt.Errorf("forwarded %q: want append, keep or all", o.Forwarded)
	}
	return nil
}

// A Proxy passes requests on to a server, as many at once as its gate lets in: HTTP/1.1 byte for
// byte on a connection to the server for each of a caller, with upgrades, and HTTP/2 without TLS,
// and so gRPC, as that. docs/concurrency.md lists the differences that a server can see.
type Proxy struct {
	gate    *Gate
	options ProxyOptions
	memory  memory
	// dial connects to the server; tests replace it.
	dial func(context.Context) (net.Conn, error)

	upgraded atomic.Int64
	held     atomic.Int64 // requests of HTTP/2 inside whose streams were reset
	coming   atomic.Int64 // requests of HTTP/2 whose bodies are incomplete

	mu       sync.Mutex
	listener net.Listener
	slots    chan struct{}  // of connections
	conns    map[*conn]bool // whether it is idle
	closing  bool
}

// NewProxy returns a proxy behind a gate.
func NewProxy(g *Gate, o ProxyOptions) (*Proxy, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	to, err := url.Parse(o.Target)
	if err != nil {
		return nil, err
	}
	address := to.Host
	if to.Port() == "" {
		address = net.JoinHostPort(to.Hostname(), "80")
	}
	dial := func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{Timeout: dialTime}).DialContext(ctx, "tcp", address)
	}
	return &Proxy{gate: g, options: o, dial: dial, slots: make(chan struct{}, o.Connections), conns: map[*conn]bool{}}, nil
}

// Serve accepts connections until [Proxy.Shutdown], and closes the listener.
func (p *Proxy) Serve(l net.Listener) error {
	p.mu.Lock()
	if p.closing {
		p.mu.Unlock()
		return l.Close()
	}
	p.listener = l
	p.mu.Unlock()
	for wait := time.Duration(0); ; {
		p.slots <- struct{}{}
		c, err := l.Accept()
		var passing interface{ Temporary() bool }
		switch {
		case err == nil:
			wait = 0
			p.accept(c)
			continue
		case p.ending():
			return nil
		case errors.As(err, &passing) && passing.Temporary(): // such as too many open files
			<-p.slots
			wait = min(max(5*time.Millisecond, 2*wait), time.Second)
			time.Sleep(wait)
		default:
			return err
		}
	}
}

func (p *Proxy) accept(nc net.Conn) {
	c := &conn{proxy: p, net: nc, in: newInflow(nc, make([]byte, smallBuffer), &p.memory)}
	p.mu.Lock()
	p.conns[c] = true
	p.mu.Unlock()
	go c.serve()
}

// idle notes whether a connection is between two requests, and returns false where it has to close.
func (p *Proxy) idle(c *conn, is bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if is && p.closing {
		return false
	}
	p.conns[c] = is
	return true
}

func (p *Proxy) forget(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	<-p.slots
}

func (p *Proxy) ending() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closing
}

// closes reports whether an answer has to close its connection.
func (p *Proxy) closes() bool {
	return p.options.Ends != nil && p.options.Ends() || p.ending()
}

// Busy returns the number of requests and upgraded connections under way. HTTP/2 streams that
// were reset do not count: their end is not visible.
func (p *Proxy) Busy() int {
	inside, waiting, _ := p.gate.Now()
	return inside + waiting + int(p.upgraded.Load()-p.held.Load())
}

// Upgraded returns how many connections were upgraded and have not ended.
func (p *Proxy) Upgraded() int { return int(p.upgraded.Load()) }

// Shutdown accepts no more, closes idle connections and waits for requests under way. If ctx
// ends before that, it closes all and returns the number of requests and connections cut off.
func (p *Proxy) Shutdown(ctx context.Context) (cut int) {
	p.mu.Lock()
	p.closing = true
	if p.listener != nil {
		_ = p.listener.Close()
	}
	var links []*link
	for c, idle := range p.conns {
		if idle {
			_ = c.net.Close()
		} else if l := c.http2(); l != nil {
			links = append(links, l)
		}
	}
	p.mu.Unlock()
	for _, l := range links {
		go l.drain()
	}
	ticks := time.NewTicker(20 * time.Millisecond)
	defer ticks.Stop()
	for p.connected() > 0 || p.Busy() > 0 {
		select {
		case <-ticks.C:
			continue
		case <-ctx.Done():
		}
		cut = max(p.Busy(), p.connected())
		p.mu.Lock()
		for c := range p.conns {
			c.cut()
		}
		p.mu.Unlock()
		return cut
	}
	return 0
}

func (p *Proxy) connected() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

func (p *Proxy) failed(err error) {
	if p.options.Failed != nil {
		p.options.Failed(err)
	}
}

// patience is the time for which a caller may read nothing of its answer.
func (p *Proxy) patience() time.Duration {
	if p.gate.Limit() > 0 {
		return p.options.Abandoned
	}
	return idleTime
}

// dialTime is the time that the server has to accept a connection.
const dialTime = 5 * time.Second

// bodyGrace is the time in which a caller may send nothing.
const bodyGrace = 10 * time.Second

// A pace bounds how long a caller may let the gate wait for its body.
type pace struct {
	rate    int64
	longest time.Duration
	bytes   int64
	waited  time.Duration
}

func (p *Proxy) pace() pace { return pace{rate: p.options.BodyRate, longest: p.options.BodyLongest} }

// left returns the time that the caller still has; bounded is false if that is unlimited.
func (p *pace) left() (d time.Duration, bounded bool) {
	d = 1 << 62
	if p.rate > 0 {
		d = bodyGrace + time.Duration(min(float64(p.bytes)/float64(p.rate), 1e9)*float64(time.Second)) - p.waited
	}
	if p.longest > 0 {
		d = min(d, p.longest-p.waited)
	}
	return d, p.rate > 0 || p.longest > 0
}

// outgoing appends to out a request's head as the server gets it.
func (p *Proxy) outgoing(out []byte, h *head, caller string) []byte {
	raw, forwarded := h.raw, h.forwarded
	switch {
	case p.options.Forwarded == ForwardedKeep:
		return append(out, raw...)
	case forwarded > 0:
		out = append(out, raw[:forwarded]...)
		if c := raw[forwarded-1]; c != ':' && c != ' ' {
			out = append(out, ", "...)
		}
		out = append(out, caller...)
		out = append(out, raw[forwarded:len(raw)-2]...)
	default:
		out = append(out, raw[:len(raw)-2]...)
		out = append(append(append(out, "X-Forwarded-For: "...), caller...), "\r\n"...)
	}
	if p.options.Forwarded == ForwardedAll {
		if !h.host {
			out = append(append(append(out, "X-Forwarded-Host: "...), h.raw[h.named[0]:h.named[1]]...), "\r\n"...)
		}
		if !h.proto {
			out = append(out, "X-Forwarded-Proto: http\r\n"...)
		}
	}
	return append(out, "\r\n"...)
}

// notice is an answer of the gate itself.
func notice(status int, text string, method string, closes bool) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", status, http.StatusText(status))
	if status == http.StatusServiceUnavailable {
		b.WriteString("Retry-After: 1\r\n")
	}
	if closes {
		b.WriteString("Connection: close\r\n")
	}
	fmt.Fprintf(&b, "Content-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\nContent-Length: %d\r\n\r\n", len(text)+1)
	if method != http.MethodHead {
		b.WriteString(text + "\n")
	}
	return b.Bytes()
}
