package gate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

const (
	// headTime is how long a caller may take to send a head, idleTime how long a connection may
	// have no request.
	headTime, idleTime = 10 * time.Second, 2 * time.Minute
	// serverIdle is how long a connection to the server is kept without requests. Servers close
	// idle connections after a few seconds; a request with a body that is written just then is lost.
	serverIdle = time.Second
	// pause is how long nothing of a body comes until the request may go in without the rest of it.
	pause = time.Second
	// lingering is how long a connection is read after its last answer, so that the caller gets it.
	lingering, mostLingering = time.Second, 64 << 20
	mostAnswerHead           = 256 << 10
)

// A conn is a caller's connection, with the connection to the server that carries its requests.
type conn struct {
	proxy *Proxy
	net   net.Conn
	in    *inflow
	ip    string
	out   []byte // the head as the server gets it

	used time.Time // when the server has last answered
	up   *inflow   // nil = no connection to the server

	mu     sync.Mutex
	server net.Conn // that of up, or of link
	link   *link    // of HTTP/2
	isCut  bool
}

var buffers = sync.Pool{New: func() any { return new([largeBuffer]byte) }}

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

// http2 returns what the connection carries streams by, nil before it does.
func (c *conn) http2() *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link
}

// cut closes both connections, whatever is under way.
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
		_ = c.net.SetWriteDeadline(time.Now().Add(lingering))
		_, err = c.net.Write(notice(http.StatusServiceUnavailable, err.Error(), h.method, false))
		return err == nil
	}
	again := x.run()
	c.in.shrink()
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

// linger ends a connection on which more may come: where it were closed at once, the kernel would
// reset it, and the caller lose the answer.
func (c *conn) linger() {
	if half, ok := c.net.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_ = c.net.SetReadDeadline(time.Now().Add(lingering))
		_, _ = io.CopyN(io.Discard, c.net, mostLingering)
	}
}

// connect returns whether the connection to the server is one that has carried requests before.
func (c *conn) connect(fresh bool) (used bool, err error) {
	if c.up != nil && !fresh && time.Since(c.used) < serverIdle && len(c.up.bytes()) == 0 && quiet(c.server) {
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
	c.up = newInflow(server, buffers.Get().(*[largeBuffer]byte)[:], &c.proxy.memory)
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
	c.up.release()
	if len(c.up.buffer) == largeBuffer {
		buffers.Put((*[largeBuffer]byte)(c.up.buffer))
	}
	c.up = nil
}

// An exchange is a request and its answer.
type exchange struct {
	*conn
	head    *head
	body    *scanner
	taken   int // bytes of the body that are read before the request goes in
	pace    pace
	limited bool
	visit   *visit
	isOut   bool // it has left the gate

	begun bool      // bytes of the final answer were written
	left  time.Time // since when the caller has left, as far as the kernel can see
	after time.Time // when it first took bytes after that
	half  bool      // it has closed its half alone
	lost  bool      // it gets no more
	told  bool      // the gate has answered that the body was none

	// Of a body that is sent while the answer may come.
	sent    chan struct{} // closed when the body is sent, or bodyErr is set
	bodyErr error

	flags struct {
		sync.Mutex
		aborted, answered bool
	}
}

var (
	errSlow    = refuse(http.StatusRequestTimeout, "the request's body came too slowly")
	errHeld    = errors.New("the caller left, and the server took longer than it may")
	errStopped = errors.New("the exchange has ended")
)

// takeBody reads the body before the request goes in, as far as it is bounded. Without a limit,
// and where the caller waits for the server's leave to send it, nothing is waited for.
func (x *exchange) takeBody() error {
	for {
		n, err := x.body.scan(x.in.bytes()[len(x.head.raw)+x.taken:])
		x.taken += n
		switch {
		case err != nil:
			return refuse(http.StatusBadRequest, "%v", err)
		case x.body.ended(), x.head.expect, !x.limited, x.taken >= mostBody, !x.in.room():
			return nil
		}
		x.head.raw = x.in.bytes()[:len(x.head.raw)] // which may have moved
		err = x.readBody(pause)
		switch {
		case err == errPaused && x.proxy.gate.Limit() >= 2: // half of them is one or more
			return nil
		case err != nil && err != errPaused:
			return err
		}
	}
}

var errPaused = errors.New("nothing of the body has come for a while")

// readBody reads once, within the caller's pace. With a patience it returns errPaused after that.
func (x *exchange) readBody(patience time.Duration) error {
	for {
		now := time.Now()
		left, bounded := x.pace.left()
		if bounded && left <= 0 && !x.isAnswered() {
			return errSlow
		}
		if patience > 0 {
			left, bounded = min(left, patience), true
		}
		deadline := now.Add(left)
		if !bounded || x.isAnswered() {
			deadline = now.Add(time.Second) // it may be bounded then
		}
		if err := x.net.SetReadDeadline(deadline); err != nil {
			return err
		}
		if x.isAborted() {
			return errStopped
		}
		before := x.in.end - x.in.begin
		err := x.in.fill()
		x.pace.waited += time.Since(now)
		x.pace.bytes += int64(x.in.end - x.in.begin - before)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if left, bounded := x.pace.left(); patience > 0 && (!bounded || left > 0) {
			return errPaused
		}
	}
}

func (x *exchange) isAborted() bool {
	x.flags.Lock()
	defer x.flags.Unlock()
	return x.flags.aborted
}

func (x *exchange) isAnswered() bool {
	x.flags.Lock()
	defer x.flags.Unlock()
	return x.flags.answered
}

// enter waits for the request's turn, as long as its caller is there.
func (x *exchange) enter() (*visit, error) {
	open, g := !x.body.ended(), x.proxy.gate
	if v := g.try(open); v != nil {
		return v, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		ticks := time.NewTicker(50 * time.Millisecond)
		defer ticks.Stop()
		for lookAt(x.net) == there {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
			}
		}
		cancel()
	}()
	return g.visit(ctx, open)
}

func (x *exchange) leave(o Outcome) {
	if !x.isOut {
		x.isOut = true
		x.visit.leave(o)
	}
}

// run passes the request on and the answer back. It returns whether another request may follow.
func (x *exchange) run() (again bool) {
	defer x.leave(Failed)
	body := x.in.bytes()[len(x.head.raw) : len(x.head.raw)+x.taken]
	x.in.discard(len(x.head.raw) + x.taken) // the bytes stay until more are read
	used, err := x.connect(false)
	a, err := x.ask(body, err)
	if err != nil && used && x.head.again && !x.begun && x.left.IsZero() { // the server closed the connection just then
		_, err = x.connect(true)
		a, err = x.ask(nil, err)
	}
	switch {
	case err == nil && a.status == http.StatusSwitchingProtocols && a.h2c:
		x.serveHTTP2(a)
		return false
	case err == nil && (a.status == http.StatusSwitchingProtocols || x.head.method == http.MethodConnect && a.status < 300):
		x.tunnel()
		return false
	}
	ended := false
	if err == nil {
		ended, err = x.copyAnswer(a)
	}
	return x.finish(a, err) && ended
}

// ask sends the request, once there is a connection, and returns the head of the final answer.
func (x *exchange) ask(body []byte, err error) (*head, error) {
	if err != nil {
		return nil, err
	}
	x.conn.out = x.proxy.outgoing(x.conn.out[:0], x.head, x.ip)
	out := x.conn.out
	if cap(out) > 2*smallBuffer {
		x.conn.out = nil
	}
	if len(body) > 0 && len(out)+len(body) <= 2*smallBuffer {
		out, body = append(out, body...), nil
	}
	if err = x.write(out); err == nil {
		err = x.write(body)
	}
	if errors.Is(err, errHeld) {
		return nil, err
	}
	return x.readAnswer(err)
}

// write writes to the server while the caller is looked at.
func (x *exchange) write(b []byte) error {
	for len(b) > 0 {
		if err := x.server.SetWriteDeadline(time.Now().Add(x.interval())); err != nil {
			return err
		}
		n, err := x.server.Write(b)
		b = b[n:]
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if err != nil {
			if err := x.look(); err != nil {
				return err
			}
		}
	}
	return nil
}

// interval is how often the caller is looked at.
func (x *exchange) interval() time.Duration {
	if x.proxy.options.Cancel {
		return 20 * time.Millisecond
	}
	return min(time.Second, max(10*time.Millisecond, x.proxy.options.Abandoned/10))
}

// look notes whether the caller has left, and returns errHeld where the request is no longer waited for.
func (x *exchange) look() error {
	now := time.Now()
	x.bodyEnded(now)
	switch p := lookAt(x.net); {
	case p == gone:
		x.lost = true
		x.leftAt(now)
	case p == ending && !x.half && !x.after.IsZero() && now.Sub(x.after) > x.interval():
		x.left, x.half = time.Time{}, true // else what was written would have broken the connection
	case p == ending && !x.half:
		x.leftAt(now)
	}
	if !x.left.IsZero() && (x.proxy.options.Cancel || now.Sub(x.left) >= x.proxy.options.Abandoned) {
		return errHeld
	}
	return nil
}

func (x *exchange) leftAt(now time.Time) {
	if x.left.IsZero() {
		x.left = now
	}
}

// bodyEnded takes note of a body that did not come as a whole: the caller gets the reason, and the
// server has the time to end that it has where callers leave.
func (x *exchange) bodyEnded(now time.Time) {
	select {
	case <-x.sent: // of a nil channel never
	default:
		return
	}
	if x.bodyErr == nil || x.bodyErr == errStopped || x.lost {
		return
	}
	x.leftAt(now)
	if r := (*refusal)(nil); errors.As(x.bodyErr, &r) && !x.begun {
		x.answer(notice(r.status, r.text, x.head.method, true))
		x.told = true
	}
	x.lost = true
}

// fill reads from the server while the caller is looked at.
func (x *exchange) fill() error {
	for {
		if err := x.server.SetReadDeadline(time.Now().Add(x.interval())); err != nil {
			return err
		}
		err := x.up.fill()
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if err := x.look(); err != nil {
			return err
		}
	}
}

// readAnswer reads up to the head of the final answer, with which the buffer then begins. Interim
// answers are passed on. sent is the error of sending the request: an answer may be there all the same.
func (x *exchange) readAnswer(sent error) (*head, error) {
	if !x.body.ended() && sent == nil {
		x.sent = make(chan struct{})
		go x.sendBody()
	}
	for searched := 0; ; {
		b := x.up.bytes()
		if line := bytes.IndexByte(b, '\n'); line == 0 || line > 0 && b[line-1] != '\r' {
			return nil, errors.New("the answer's head has a bare line feed")
		}
		if n := endOfHead(b[searched:]); n > 0 {
			a, err := parseAnswer(b[:searched+n])
			x.bodyEnded(time.Now()) // the server may answer to the part that it got
			if err != nil || a.status >= 200 || a.status == http.StatusSwitchingProtocols {
				return a, err
			}
			x.answer(a.raw)
			x.up.discard(len(a.raw))
			searched = 0
			continue
		}
		if len(b) > mostAnswerHead || !x.up.room() {
			return nil, fmt.Errorf("the answer's head has more than %d bytes", len(b))
		}
		searched = max(0, len(b)-3)
		if err := x.fill(); err != nil {
			return nil, errors.Join(sent, err)
		}
	}
}

// answer writes to the caller. One that takes nothing for as long as a request may be abandoned
// has left.
func (x *exchange) answer(b []byte) {
	if x.lost || len(b) == 0 {
		return
	}
	now := time.Now()
	if x.limited && !x.isOut {
		_ = x.net.SetWriteDeadline(now.Add(x.proxy.options.Abandoned))
	} else {
		_ = x.net.SetWriteDeadline(time.Time{})
	}
	if _, err := x.net.Write(b); err != nil {
		x.lost = true
		x.leftAt(now)
		return
	}
	if !x.left.IsZero() && x.after.IsZero() {
		x.after = now
	}
}

// copyAnswer passes the answer on. The request has left the gate when the server has ended it.
func (x *exchange) copyAnswer(a *head) (persists bool, err error) {
	x.flags.Lock()
	x.flags.answered = true
	x.flags.Unlock()
	body := newScanner(a.answerTo(x.head.method), a.length)
	closes := x.proxy.closes()
	begin := len(a.raw)
	if closes && !a.close {
		head := append(append([]byte(nil), a.raw[:begin-2]...), "Connection: close\r\n\r\n"...)
		x.begun = true
		x.answer(head)
		x.up.discard(begin)
		begin = 0
	}
	for {
		b := x.up.bytes()
		n, err := body.scan(b[begin:])
		if err != nil {
			return false, err
		}
		n += begin
		begin = 0
		if body.ended() {
			x.answered(a, body)
		}
		x.begun = x.begun || n > 0
		x.answer(b[:n])
		x.up.discard(n)
		if body.ended() {
			break
		}
		if !x.up.room() { // never: all of it belongs to the body
			return false, errors.New("more than the answer's body")
		}
		if x.lost {
			if err := x.look(); err != nil {
				return false, err
			}
		}
		if err := x.fill(); err != nil {
			if errors.Is(err, io.EOF) && body.framing == untilClose {
				x.answered(a, body)
				return false, nil
			}
			return false, err
		}
	}
	x.used = time.Now()
	return a.persists() && x.head.persists() && !closes, nil
}

// answered leaves the gate.
func (x *exchange) answered(a *head, body *scanner) {
	if x.isOut {
		return
	}
	if x.left.IsZero() && !x.begun && lookAt(x.net) != there {
		x.left = time.Now()
	}
	switch {
	case !x.left.IsZero():
		x.leave(Gone)
	case a.status >= http.StatusInternalServerError, a.grpc && (a.grpcFailed || body.failed):
		x.leave(Failed)
	default:
		x.leave(Answered)
	}
}

// finish ends the exchange and returns whether the caller's connection may carry another.
func (x *exchange) finish(a *head, err error) bool {
	if err != nil {
		x.bodyEnded(time.Now())
		o := Failed
		if !x.left.IsZero() {
			o = Gone
		}
		x.leave(o)
		x.stopBody()
		x.dropServer()
		if o == Failed {
			x.proxy.failed(err)
		}
		switch {
		case x.told:
			x.linger()
		case o == Failed && !x.begun:
			x.refuse(refuse(http.StatusBadGateway, "the server gave no answer"), x.head.method)
		}
		return false
	}
	if x.told {
		x.linger()
	}
	persists := !x.lost && a.persists() && x.head.persists()
	if x.sent != nil {
		early := false
		select {
		case <-x.sent:
		default:
			early = true
		}
		if early && persists && !x.head.expect {
			<-x.sent // the server takes the rest of the body
			early = false
		}
		if early {
			x.dropServer()
			x.stopBody()
			if !x.lost {
				x.linger()
			}
			return false
		}
		persists = persists && x.bodyErr == nil
	}
	if !persists {
		x.dropServer()
	}
	return persists
}

// stopBody ends the sending of the body.
func (x *exchange) stopBody() {
	if x.sent == nil {
		return
	}
	x.flags.Lock()
	x.flags.aborted = true
	x.flags.Unlock()
	_ = x.net.SetReadDeadline(time.Unix(1, 0))
	x.mu.Lock()
	if x.server != nil {
		_ = x.server.SetWriteDeadline(time.Unix(1, 0))
	}
	x.mu.Unlock()
	<-x.sent
}

// sendBody sends what comes of the body to the server, which hears at once where no more comes.
func (x *exchange) sendBody() {
	server := x.server
	x.bodyErr = x.copyBody(server)
	close(x.sent)
	switch x.bodyErr {
	case nil:
		x.visit.whole()
	case errStopped:
	default:
		if half, ok := server.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}
}

// copyBody returns errStopped where the server takes no more: its answer says why.
func (x *exchange) copyBody(server net.Conn) error {
	for !x.body.ended() {
		if len(x.in.bytes()) == 0 {
			x.in.room()
			if err := x.readBody(0); err != nil {
				return err
			}
		}
		n, err := x.body.scan(x.in.bytes())
		if err != nil {
			return refuse(http.StatusBadRequest, "%v", err)
		}
		_ = server.SetWriteDeadline(time.Time{})
		if x.isAborted() {
			return errStopped
		}
		if _, err := server.Write(x.in.bytes()[:n]); err != nil {
			return errStopped
		}
		x.in.discard(n)
	}
	return nil
}

// tunnel passes bytes in both directions until both ends have closed. The connection is no longer
// inside: it counts among those that were upgraded.
func (x *exchange) tunnel() {
	x.leave(Answered)
	if x.sent != nil {
		<-x.sent
	}
	_ = x.net.SetDeadline(time.Time{})
	_ = x.server.SetDeadline(time.Time{})
	pass := func(to net.Conn, before []byte, from net.Conn) {
		if _, err := to.Write(before); err == nil {
			_, err = io.Copy(to, from)
			if err != nil {
				_ = from.Close()
			}
		}
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}
	var up sync.WaitGroup
	client, server, before := x.net, x.server, x.in.bytes()
	up.Go(func() { pass(server, before, client) })
	pass(client, x.up.bytes(), server)
	up.Wait()
}
