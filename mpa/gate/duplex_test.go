package gate

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	noAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	aGet     = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	aPost    = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"
	h2cGet   = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"
	switches = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "
)

// A duplex is one end of a connection in memory, which follows the clock of synctest. As with TCP, each
// half can be closed alone.
type duplex struct {
	net.Conn // that is read
	to       net.Conn
}

func newDuplex() (a, b *duplex) {
	a, b = &duplex{}, &duplex{}
	a.to, b.Conn = net.Pipe()
	b.to, a.Conn = net.Pipe()
	return a, b
}

func (d *duplex) Write(b []byte) (int, error) {
	if len(b) == 0 { // a pipe waits for a reader
		return 0, nil
	}
	return d.to.Write(b)
}

func (d *duplex) SetWriteDeadline(at time.Time) error { return d.to.SetWriteDeadline(at) }
func (d *duplex) CloseWrite() error                   { return d.to.Close() }

func (d *duplex) SetDeadline(at time.Time) error {
	_ = d.to.SetDeadline(at)
	return d.Conn.SetDeadline(at)
}

func (d *duplex) Close() error {
	_ = d.to.Close()
	return d.Conn.Close()
}

// inMemory returns a proxy whose connections are all in memory. serve is the server's end of the nth
// connection to it. call connects a caller and sends a text; gated is the gate's end.
func inMemory(t *testing.T, g *Gate, set func(*ProxyOptions), serve func(n int, c *duplex)) (p *Proxy, call func(text string) (c, gated *duplex)) {
	t.Helper()
	o := DefaultProxyOptions()
	o.Target = "http://server"
	set(&o)
	p, err := NewProxy(g, o)
	require.NoError(t, err)
	var mu sync.Mutex
	n := 0
	pair := func() (a, b *duplex) {
		a, b = newDuplex()
		t.Cleanup(func() { _, _ = a.Close(), b.Close() })
		return a, b
	}
	p.dial = func(context.Context) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		n++
		a, b := pair()
		go serve(n, b)
		return a, nil
	}
	return p, func(text string) (c, gated *duplex) {
		a, b := pair()
		p.slots <- struct{}{}
		p.accept(b)
		go func() { _, _ = io.WriteString(a, text) }()
		return a, b
	}
}

// A stuck is a connection whose other end reads nothing after stick. A write with a deadline fails at once, as
// if the deadline had passed; one without waits until the connection is closed.
type stuck struct {
	net.Conn
	mu       sync.Mutex
	is       bool
	deadline time.Time     // of writes
	waits    chan struct{} // has an element for a write that waits
	closed   chan struct{}
	once     sync.Once
}

func newStuck(c net.Conn) *stuck {
	return &stuck{Conn: c, waits: make(chan struct{}, 100), closed: make(chan struct{})}
}

func (s *stuck) stick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.is = true
}

func (s *stuck) limit() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deadline
}

func (s *stuck) Write(b []byte) (int, error) {
	s.mu.Lock()
	is, deadline := s.is, s.deadline
	s.mu.Unlock()
	switch {
	case !is:
		return s.Conn.Write(b)
	case !deadline.IsZero():
		return 0, os.ErrDeadlineExceeded
	}
	s.waits <- struct{}{}
	<-s.closed
	return 0, net.ErrClosed
}

func (s *stuck) SetWriteDeadline(at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = at
	return s.Conn.SetWriteDeadline(at)
}

func (s *stuck) SetDeadline(at time.Time) error {
	_ = s.SetWriteDeadline(at)
	return s.Conn.SetDeadline(at)
}

func (s *stuck) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.Conn.Close()
}

// An instant is a connection to a server whose answer can be read at once, and which accepts all bytes.
type instant struct {
	net.Conn
	answer io.Reader
}

func (c *instant) Read(b []byte) (int, error)       { return c.answer.Read(b) }
func (c *instant) Write(b []byte) (int, error)      { return len(b), nil }
func (c *instant) SetReadDeadline(time.Time) error  { return nil }
func (c *instant) SetWriteDeadline(time.Time) error { return nil }
func (c *instant) Close() error                     { return nil }
