package gate

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

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
		go x.sendBody(x.server)
	}
	for searched := 0; ; {
		b := x.up.bytes()
		n := endOfHead(b[searched:])
		if n == 0 && bareFeed(b, searched) { // no end of a head may follow
			return nil, errors.New("the answer's head has a bare line feed")
		}
		if n > 0 {
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

// answer writes to the caller. One that reads nothing for as long as a request may be
// abandoned has left.
func (x *exchange) answer(b []byte) {
	if x.lost || len(b) == 0 {
		return
	}
	now := time.Now()
	_ = x.net.SetWriteDeadline(now.Add(x.proxy.patience()))
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

// finish ends the exchange and returns whether the caller's connection may carry another, which it
// may not where it does not persist.
func (x *exchange) finish(err error, persists bool) bool {
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
	persists = persists && !x.lost
	if x.sent == nil && !x.body.ended() { // the request could not be written as a whole: the next bytes are no request
		x.dropServer()
		x.linger()
		return false
	}
	if x.sent != nil {
		early := false
		select {
		case <-x.sent:
		default:
			early = true
		}
		if early && persists && !x.head.expect {
			early = !x.restTaken()
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

// restTaken waits until the server has taken the rest of a body to which it has answered already,
// and returns false if the caller leaves or the body stalls.
func (x *exchange) restTaken() bool {
	ticks := time.NewTicker(pause)
	defer ticks.Stop()
	for passed, since := x.passed.Load(), time.Now(); ; {
		select {
		case <-x.sent:
			return true
		case now := <-ticks.C:
			if n := x.passed.Load(); n != passed {
				passed, since = n, now
			}
			if lookAt(x.net) == gone || now.Sub(since) >= bodyGrace {
				return false
			}
		}
	}
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

// tunnel passes bytes in both directions until both ends have closed. The connection is no longer
// inside: it counts among those that were upgraded.
func (x *exchange) tunnel() {
	x.leave(Answered)
	if x.sent != nil {
		<-x.sent
	}
	_ = x.net.SetDeadline(time.Time{})
	_ = x.server.SetDeadline(time.Time{})
	pass := func(to net.Conn, before []byte, from net.Conn) error {
		_, err := to.Write(before)
		if err == nil {
			if _, err = io.Copy(to, from); err != nil {
				_ = from.Close()
			}
		}
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
		return err
	}
	var up sync.WaitGroup
	client, server, before := x.net, x.server, x.in.bytes()
	up.Go(func() {
		if pass(server, before, client) != nil { // the connection is broken, and the server may see its half alone end
			_ = server.SetReadDeadline(time.Now().Add(lastWords))
		}
	})
	_ = pass(client, x.up.bytes(), server)
	late := time.Now().Add(lastWords) // the server has ended
	_ = client.SetReadDeadline(late)
	_ = server.SetWriteDeadline(late)
	up.Wait()
}
