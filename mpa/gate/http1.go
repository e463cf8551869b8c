package gate

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

const (
	// headTime is the longest time for a caller to send a head, idleTime that of a connection
	// without a request.
	headTime, idleTime = 10 * time.Second, 2 * time.Minute
	// serverIdle is the time for which a connection to the server is kept without requests.
	// Servers close idle connections after a few seconds; a request with a body that is
	// written just then is lost.
	serverIdle = time.Second
	// pause is the silence within a body after which the request may enter without the rest
	// of it.
	pause = 250 * time.Millisecond
	// lingering is the silence on a connection after its last answer before it is closed.
	// Reading until then lets the caller receive the answer.
	lingering, mostLingering = time.Second, 30 * time.Second
	// lastWords is the time for which an upgraded connection stays after the server has
	// closed its half or the caller's connection broke.
	lastWords      = 10 * time.Second
	mostAnswerHead = 256 << 10
)

// A conn is a caller's connection, with the connection to the server that carries its requests.
type conn struct {
	proxy   *Proxy
	net     net.Conn
	in      *inflow
	ip      string
	sending []byte // the head as the server gets it

	used time.Time // when the server has last answered
	up   *inflow   // nil = no connection to the server

	mu     sync.Mutex
	server net.Conn // that of up, or of link
	link   *link    // of HTTP/2
	isCut  bool
}

func (c *conn) serve() {
	defer c.end()
	if address, ok := c.net.RemoteAddr().(*net.TCPAddr); ok {
		c.ip = address.IP.String()
	}
	for c.next() {
	}
}

func (c *conn) end() {
	c.dropServer()
	_ = c.net.Close()
	c.in.release()
	c.proxy.forget(c)
}

// http2 returns the link of an HTTP/2 connection, nil before there is one.
func (c *conn) http2() *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link
}

// cut closes both connections, with all requests under way.
func (c *conn) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = true
	_ = c.net.Close()
	if c.server != nil {
		_ = c.server.Close()
	}
}

// next serves a request and returns whether another may follow.
func (c *conn) next() bool {
	raw, err := c.readHead()
	if err == nil && string(raw) == prefaceHead {
		c.serveHTTP2()
		return false
	}
	var h *head
	if err == nil {
		h, err = parseRequest(raw)
	}
	if err != nil {
		if r := (*refusal)(nil); errors.As(err, &r) {
			c.refuse(r, "")
		}
		return false
	}
	if h.upgrade || h.method == http.MethodConnect {
		defer c.proxy.upgraded.Add(-1)
		if c.proxy.upgraded.Add(1) > int64(c.proxy.options.Upgrades) {
			c.refuse(refuse(http.StatusServiceUnavailable, "as many connections are upgraded as may"), h.method)
			return false
		}
	}
	x := &exchange{conn: c, head: h, body: newScanner(h.body(), h.length), pace: c.proxy.pace(), limited: c.proxy.gate.Limit() > 0}
	if err := x.takeBody(); err != nil {
		if r := (*refusal)(nil); errors.As(err, &r) {
			c.refuse(r, h.method)
		}
		return false
	}
	if x.visit, err = x.enter(); err != nil {
		if !errors.Is(err, ErrFull) && !errors.Is(err, ErrLate) {
			return false
		}
		if !x.body.ended() || !h.persists() {
			c.refuse(refuse(http.StatusServiceUnavailable, "%v", err), h.method)
			return false
		}
		c.in.discard(len(h.raw) + x.taken)
		c.in.shrink()
		_ = c.net.SetWriteDeadline(time.Now().Add(lingering))
		_, err = c.net.Write(notice(http.StatusServiceUnavailable, err.Error(), h.method, false))
		return err == nil
	}
	again := x.run()
	c.in.shrink()
	if c.up != nil {
		c.up.park()
	}
	return again
}

// readHead reads the head of the next request.
func (c *conn) readHead() ([]byte, error) {
	searched, deadline := 0, time.Time{}
	for {
		for searched == 0 && bytes.HasPrefix(c.in.bytes(), []byte("\r\n")) {
			c.in.discard(2) // RFC 9112, section 2.2
		}
		b := c.in.bytes()
		switch n := endOfHead(b[searched:]); {
		case n > 0 && searched+n <= mostHead:
			return b[:searched+n], nil
		case n > 0 || len(b) > mostHead:
			return nil, errHeadLarge
		case len(b) > 0 && !tokens[b[0]] && b[0] != '\r':
			return nil, refuse(http.StatusBadRequest, "this is no request of HTTP")
		case bareFeed(b, searched): // no end of a head may follow
			return nil, refuse(http.StatusBadRequest, "the request's head has a bare line feed")
		case !c.in.room():
			return nil, refuse(http.StatusServiceUnavailable, "too many bytes are held")
		}
		searched = max(0, len(b)-3)
		if len(b) == 0 {
			if err := c.wait(); err != nil {
				return nil, err
			}
			deadline = time.Now().Add(headTime)
			continue
		}
		if deadline.IsZero() {
			deadline = time.Now().Add(headTime)
		}
		if err := c.net.SetReadDeadline(deadline); err != nil {
			return nil, err
		}
		if err := c.in.fill(); err != nil {
			return nil, err
		}
	}
}

// wait waits for the first bytes of a request. The server's connection is not kept for long.
func (c *conn) wait() error {
	if !c.proxy.idle(c, true) {
		return net.ErrClosed
	}
	for _, patience := range []time.Duration{serverIdle, idleTime} {
		if err := c.net.SetReadDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		err := c.in.fill()
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			c.proxy.idle(c, false)
			return err
		}
		c.dropServer()
	}
	return os.ErrDeadlineExceeded
}

// refuse answers in the gate's name and ends the connection.
func (c *conn) refuse(r *refusal, method string) {
	_ = c.net.SetWriteDeadline(time.Now().Add(lingering))
	if _, err := c.net.Write(notice(r.status, r.text, method, true)); err == nil {
		c.linger()
	}
}

// linger ends a connection on which more bytes may arrive: if it were closed at once, the
// kernel would reset it, and the caller lose the answer.
func (c *conn) linger() {
	if half, ok := c.net.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		chunk := buffers.Get().(*[largeBuffer]byte)
		defer buffers.Put(chunk)
		for late := time.Now().Add(mostLingering); time.Now().Before(late); {
			_ = c.net.SetReadDeadline(time.Now().Add(lingering))
			if _, err := c.net.Read(chunk[:]); err != nil {
				return
			}
		}
	}
}

// connect returns whether the connection to the server is one that has carried requests before.
func (c *conn) connect(fresh bool) (used bool, err error) {
	if c.up != nil && !fresh && time.Since(c.used) < serverIdle && c.up.unpark() && quiet(c.server) {
		return true, nil
	}
	c.dropServer()
	server, err := c.proxy.dial(context.Background())
	if err != nil {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isCut {
		_ = server.Close()
		return false, net.ErrClosed
	}
	c.server = server
	c.up = newInflow(server, nil, &c.proxy.memory)
	c.up.base = largeBuffer
	c.up.unpark()
	return false, nil
}

func (c *conn) dropServer() {
	if c.up == nil {
		return
	}
	c.mu.Lock()
	_ = c.server.Close()
	c.server = nil
	c.mu.Unlock()
	c.up.discard(len(c.up.bytes()))
	c.up.park()
	c.up = nil
}
