package gate

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// An exchange is a request and its answer.
type exchange struct {
	*conn
	head    *head
	body    *scanner
	taken   int // bytes of the body that are read before the request enters
	pace    pace
	limited bool
	visit   *visit
	isOut   bool // it has left the gate

	begun bool      // bytes of the final answer were written
	left  time.Time // since when the caller has left, as far as the kernel detects
	after time.Time // when it first took bytes after that
	half  bool      // it has closed its half alone
	lost  bool      // it gets no more
	told  bool      // the gate has answered that the body was invalid

	// Of a body that is sent while the answer may arrive.
	sent    chan struct{} // closed when the body is sent, or bodyErr is set
	bodyErr error
	passed  atomic.Int64 // bytes

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

// takeBody reads the body before the request enters, up to its bounds. It does not wait
// without a limit, or if the caller waits for the server's permission to send the body.
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
		case errors.Is(err, errPaused) && x.proxy.gate.Limit() >= 2: // half of them is one or more
			return nil
		case err != nil && !errors.Is(err, errPaused):
			return err
		}
	}
}

var errPaused = errors.New("nothing of the body has come for a while")

// readBody reads once, within the caller's pace. With a patience above 0 it returns errPaused
// after that.
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
	return x.finish(err, ended)
}

// ask sends the request over an open connection, and returns the head of the final answer.
func (x *exchange) ask(body []byte, err error) (*head, error) {
	if err != nil {
		return nil, err
	}
	x.sending = x.proxy.outgoing(x.sending[:0], x.head, x.ip)
	out := x.sending
	if cap(out) > 2*smallBuffer {
		x.sending = nil
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

// interval is the time between two checks of the caller.
func (x *exchange) interval() time.Duration {
	if x.proxy.options.Cancel {
		return 20 * time.Millisecond
	}
	return min(time.Second, max(10*time.Millisecond, x.proxy.options.Abandoned/10))
}

// look detects that the caller has left, and returns errHeld once the request is no longer
// waited for.
func (x *exchange) look() error {
	now := time.Now()
	x.bodyEnded(now)
	switch p := lookAt(x.net); {
	case p == gone:
		x.lost = true
		x.leftAt(now)
	case p == ending && !x.half && !x.after.IsZero() && now.Sub(x.after) > x.interval():
		x.left, x.half = time.Time{}, true // otherwise the write would have failed
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

// bodyEnded handles a body that ended early: the caller gets the reason, and the server has
// the same time to end as for callers that leave.
func (x *exchange) bodyEnded(now time.Time) {
	select {
	case <-x.sent: // of a nil channel never
	default:
		return
	}
	if x.bodyErr == nil || errors.Is(x.bodyErr, errStopped) || x.lost {
		return
	}
	x.leftAt(now)
	if r := (*refusal)(nil); errors.As(x.bodyErr, &r) && !x.begun {
		x.answer(notice(r.status, r.text, x.head.method, true))
		x.told = true
	}
	x.lost = true
}

// sendBody forwards the body to the server, and half-closes the connection at once if the
// body ends early.
func (x *exchange) sendBody(server net.Conn) {
	x.bodyErr = x.copyBody(server)
	close(x.sent)
	switch {
	case x.bodyErr == nil:
		x.visit.whole()
	case errors.Is(x.bodyErr, errStopped):
	default:
		if half, ok := server.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}
}

// copyBody returns errStopped if the server accepts no more: its answer has the reason.
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
		x.passed.Add(int64(n))
		if _, err := server.Write(x.in.bytes()[:n]); err != nil {
			return errStopped
		}
		x.in.discard(n)
	}
	return nil
}
