package gate

import (
	"context"
	"encoding/binary"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A stream is one request of HTTP/2 and its answer.
type stream struct {
	id, sid  uint32 // the caller's number and the server's; 0 = the server has not got it
	fields   []hpack.HeaderField
	trailers []hpack.HeaderField
	pending  []byte // of the body, until the request is in
	held     int    // bytes of all three
	granted  int    // by the caller for the answer until then
	expect   bool
	tunnel   bool // CONNECT
	upgraded bool
	grpc     bool
	first    grpcFirst

	coming bool // it waits for its body
	asked  bool // it waits for its turn, or is in
	cancel context.CancelFunc
	visit  *visit
	open   bool // it was let in before its body

	whole   bool // the body is complete, or the first message of gRPC
	ended   bool // the caller has ended its half
	replied bool // the final answer has begun
	done    bool // the server has ended its half
	failed  bool
	calls   bool   // it is the answer of a call of gRPC
	status  string // of the call

	toServer, toClient int64 // windows
	pace               pace
	seen, counted      time.Time // of the last bytes; up to which pace counts
	stalled            time.Time // since when the caller reads nothing of the answer
}

// request takes the fields of a new stream, or the trailers of one that is there.
func (l *link) request(f *http2.MetaHeadersFrame) {
	st := l.streams[f.StreamID]
	if st == nil && (f.StreamID <= l.last || l.away) {
		return // it has ended, or is after the last that the caller may open
	}
	if st != nil {
		if st.ended || !f.StreamEnded() {
			return
		}
		if st.sid == 0 && !l.keep(st, size(f.Fields)) {
			return
		}
		st.trailers = slices.Clone(f.Fields)
		l.sent(st, nil, true)
		return
	}
	l.last = f.StreamID
	st = &stream{
		id: f.StreamID, ended: f.StreamEnded(), whole: f.StreamEnded(),
		toServer: l.toServer, toClient: l.toClient, pace: l.proxy.pace(), seen: time.Now(),
	}
	st.counted = st.seen
	l.streams[st.id] = st
	if !l.keep(st, size(f.Fields)) {
		return
	}
	st.fields = slices.Clone(f.Fields)
	for _, h := range st.fields {
		switch h.Name {
		case ":method":
			st.tunnel = h.Value == http.MethodConnect
		case "content-type":
			st.grpc = strings.HasPrefix(h.Value, grpcType)
		case "expect":
			st.expect = true
		}
	}
	switch {
	case f.Truncated:
		l.refuse(st, http.StatusRequestHeaderFieldsTooLarge)
		return
	case l.dead:
		if v := l.proxy.gate.try(false); v != nil {
			v.leave(Failed)
		}
		l.refuse(st, http.StatusBadGateway)
		l.goAway()
		return
	}
	if st.tunnel {
		st.upgraded, st.whole = true, true
		if l.proxy.upgraded.Add(1) > int64(l.proxy.options.Upgrades) {
			l.refuse(st, http.StatusServiceUnavailable)
			return
		}
	}
	switch {
	case st.whole, st.expect, l.proxy.gate.Limit() == 0:
		l.enter(st)
	default:
		st.coming = true
		if l.proxy.coming.Add(1) > int64(l.proxy.options.Connections) {
			l.refuse(st, http.StatusServiceUnavailable)
			return
		}
		l.sweep()
	}
}

// data takes a part of a body.
func (l *link) data(f *http2.DataFrame) {
	data := f.Data()
	l.linkToServer -= int64(f.Length)
	st := l.streams[f.StreamID]
	if st == nil || st.ended {
		l.regrant(int(f.Length))
		return
	}
	st.toServer -= int64(f.Length)
	if padding := int(f.Length) - len(data); padding > 0 {
		l.regrant(padding)
		st.toServer += int64(padding)
		l.client.grant(st.id, padding)
	}
	st.seen = time.Now()
	st.pace.bytes += int64(len(data))
	l.sent(st, data, f.StreamEnded())
}

// sent passes on a stream's data from the caller, or keeps it until the request is in.
func (l *link) sent(st *stream, data []byte, end bool) {
	st.ended = end
	st.whole = st.whole || end || st.grpc && st.first.add(data)
	if st.sid == 0 {
		if !l.keep(st, len(data)) {
			l.regrant(len(data))
			return
		}
		st.pending = append(st.pending, data...)
		l.linkToServer += int64(len(data))
		l.client.grant(0, len(data))
		if !st.asked && (st.whole || len(st.pending) >= mostBody || st.toServer <= 0) {
			l.enter(st)
		}
		return
	}
	l.pass(st, data)
	if st.whole && st.open {
		st.open = false
		if st.visit != nil {
			st.visit.whole()
		}
	}
	l.end(st)
}

// enter lets a stream in when it is its turn.
func (l *link) enter(st *stream) {
	l.came(st)
	st.asked, st.open = true, !st.whole
	g := l.proxy.gate
	if v := g.try(st.open); v != nil {
		l.start(st, v)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	st.cancel = cancel
	go func() {
		v, err := g.visit(ctx, st.open)
		cancel()
		l.mu.Lock()
		defer l.mu.Unlock()
		defer l.flush()
		switch {
		case l.closed || l.streams[st.id] != st:
			if v != nil {
				v.leave(Gone)
			}
		case err != nil:
			l.refuse(st, http.StatusServiceUnavailable)
		case l.dead:
			v.leave(Failed)
			l.refuse(st, http.StatusBadGateway)
		default:
			l.start(st, v)
		}
	}()
}

// came records that the body is no longer waited for.
func (l *link) came(st *stream) {
	if st.coming {
		st.coming = false
		l.proxy.coming.Add(-1)
	}
}

// start opens the stream at the server.
func (l *link) start(st *stream, v *visit) {
	st.visit, st.sid = v, l.next
	l.next += 2
	l.byServer[st.sid] = st
	if st.open && st.whole { // the body was completed while the request waited
		st.open = false
		v.whole()
	}
	fields := l.forwarded(st.fields)
	l.server.fields(st.sid, fields, st.ended && len(st.pending) == 0 && st.trailers == nil)
	l.server.grant(st.sid, st.granted)
	if len(st.pending) > 0 || st.trailers != nil {
		l.owed += int64(len(st.pending)) // they take of the server's window now
		l.pass(st, st.pending)
	}
	l.forget(st)
	st.fields = nil
	l.sweep()
}

// forget releases the bytes that a stream held until it was in.
func (l *link) forget(st *stream) {
	l.proxy.memory.give(st.held)
	st.pending, st.held = nil, 0
}

// forwarded adds the caller's address by the flags of the command.
func (l *link) forwarded(fields []hpack.HeaderField) []hpack.HeaderField {
	if l.proxy.options.Forwarded == ForwardedKeep {
		return fields
	}
	last, host, proto, authority := -1, false, false, ""
	for i, f := range fields {
		switch f.Name {
		case "x-forwarded-for":
			last = i
		case "x-forwarded-host":
			host = true
		case "x-forwarded-proto":
			proto = true
		case ":authority", "host":
			authority = f.Value
		}
	}
	switch {
	case last < 0:
		fields = append(fields, hpack.HeaderField{Name: "x-forwarded-for", Value: l.ip})
	case fields[last].Value == "":
		fields[last].Value = l.ip
	default:
		fields[last].Value += ", " + l.ip
	}
	if l.proxy.options.Forwarded == ForwardedAll {
		if !host {
			fields = append(fields, hpack.HeaderField{Name: "x-forwarded-host", Value: authority})
		}
		if !proto {
			fields = append(fields, hpack.HeaderField{Name: "x-forwarded-proto", Value: "http"})
		}
	}
	return fields
}

// refuse answers a stream in the gate's name, without a body: that would take of a window which the
// server counts on.
func (l *link) refuse(st *stream, status int) {
	fields := []hpack.HeaderField{{Name: ":status", Value: strconv.Itoa(status)}}
	if status == http.StatusServiceUnavailable {
		fields = append(fields, hpack.HeaderField{Name: "retry-after", Value: "1"})
	}
	l.client.fields(st.id, fields, true)
	if !st.ended {
		_ = l.client.framer.WriteRSTStream(st.id, http2.ErrCodeNo)
	}
	l.remove(st)
}

// remove forgets a stream.
func (l *link) remove(st *stream) {
	if l.streams[st.id] != st {
		return
	}
	delete(l.streams, st.id)
	delete(l.byServer, st.sid)
	l.came(st)
	if st.sid == 0 {
		l.forget(st)
	}
	l.unblock()
	if st.cancel != nil {
		st.cancel()
	}
	if st.upgraded {
		l.proxy.upgraded.Add(-1)
	}
	if l.away && len(l.streams) == 0 {
		l.flush()
		_ = l.client.conn.SetReadDeadline(time.Unix(1, 0)) // the reader closes the connection
	}
}

// leaves ends a stream whose caller has left. The server gets a reset: from then on its end
// is not visible, and the request keeps its place for the longest time allowed.
func (l *link) leaves(st *stream, code http2.ErrCode) {
	if st.sid != 0 {
		_ = l.server.framer.WriteRSTStream(st.sid, code)
	}
	l.hold(st)
	l.remove(st)
}

func (l *link) hold(st *stream) {
	v := st.visit
	switch st.visit = nil; {
	case v == nil:
	case l.proxy.options.Cancel:
		v.leave(Gone)
	default:
		l.proxy.held.Add(1)
		time.AfterFunc(l.proxy.options.Abandoned, func() {
			l.proxy.held.Add(-1)
			v.leave(Gone)
		})
	}
}

// grpcFirst finds the end of the first message of a call: a byte of flags, four of length, and so
// many bytes.
type grpcFirst struct {
	prefix []byte
	left   int64
}

func (f *grpcFirst) add(b []byte) bool {
	if n := min(5-len(f.prefix), len(b)); n > 0 {
		f.prefix = append(f.prefix, b[:n]...)
		b = b[n:]
		if len(f.prefix) == 5 {
			f.left = int64(binary.BigEndian.Uint32(f.prefix[1:]))
		}
	}
	f.left -= int64(len(b))
	return len(f.prefix) == 5 && f.left <= 0
}
