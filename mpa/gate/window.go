package gate

import (
	"bytes"
	"net/http"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// regrant grants the caller again the bytes that are not passed on, less those that were
// granted in advance.
func (l *link) regrant(n int) {
	paid := min(int64(n), l.owed)
	l.owed -= paid
	l.linkToServer += int64(n) - paid
	l.client.grant(0, n-int(paid))
}

// keep counts bytes that a stream holds until it is in, and refuses it if there are too many.
func (l *link) keep(st *stream, n int) bool {
	if !l.proxy.memory.take(n) {
		l.refuse(st, http.StatusServiceUnavailable)
		return false
	}
	st.held += n
	return true
}

// size returns the memory of fields, in bytes.
func size(fields []hpack.HeaderField) (n int) {
	for _, f := range fields {
		n += len(f.Name) + len(f.Value) + 40
	}
	return n
}

// pass writes data and, at the end, trailers to the server, up to its window.
func (l *link) pass(st *stream, data []byte) {
	if len(l.backlog) == 0 {
		var whole bool
		if data, whole = l.write(st, data, st.ended); whole {
			return
		}
	}
	l.proxy.memory.held.Add(int64(len(data)))
	l.backlog = append(l.backlog, part{st, bytes.Clone(data), st.ended})
}

// write returns the data beyond the window, and whether all was written.
func (l *link) write(st *stream, data []byte, last bool) (rest []byte, whole bool) {
	end := last && st.trailers == nil
	for first := true; len(data) > 0 || first && end; first = false {
		part := data[:max(0, min(int64(len(data)), frameSize, l.window))]
		if len(part) == 0 && len(data) > 0 {
			return data, false
		}
		data = data[len(part):]
		l.window -= int64(len(part))
		_ = l.server.framer.WriteData(st.sid, end && len(data) == 0, part)
	}
	if last && st.trailers != nil {
		l.server.fields(st.sid, st.trailers, true)
	}
	return nil, true
}

// unblock writes the backlog up to the window. Data of streams that have ended is dropped.
func (l *link) unblock() {
	for len(l.backlog) > 0 {
		p := &l.backlog[0]
		before, whole := len(p.data), true
		if l.byServer[p.stream.sid] == p.stream && !l.closed {
			p.data, whole = l.write(p.stream, p.data, p.last)
		} else {
			l.regrant(len(p.data))
			p.data = nil
		}
		l.proxy.memory.give(before - len(p.data))
		if !whole {
			return
		}
		l.backlog = l.backlog[1:]
	}
}

// widen passes a window on that the caller grants.
func (l *link) widen(f *http2.WindowUpdateFrame) {
	if f.StreamID == 0 {
		l.linkToClient += int64(f.Increment)
		if !l.dead {
			l.server.grant(0, int(f.Increment))
		}
		return
	}
	st := l.streams[f.StreamID]
	if st == nil {
		return
	}
	st.toClient += int64(f.Increment)
	if st.sid == 0 {
		st.granted = min(st.granted+int(f.Increment), 1<<30)
		return
	}
	l.server.grant(st.sid, int(f.Increment))
}

// sweep starts regular checks of the streams while there are any.
func (l *link) sweep() {
	if !l.sweeps {
		l.sweeps = true
		time.AfterFunc(sweeping, l.look)
	}
}

func (l *link) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for _, st := range l.streams {
		l.lookAt(st, now)
	}
	l.flush()
	if l.sweeps = len(l.streams) > 0 && !l.closed; l.sweeps {
		time.AfterFunc(sweeping, l.look)
	}
}

// lookAt ends a stream whose body arrives too slowly, or whose caller reads nothing of its
// answer. Only the time counts in which the caller could send, or the server would.
func (l *link) lookAt(st *stream, now time.Time) {
	if st.toServer > 0 && l.linkToServer > 0 {
		st.pace.waited += now.Sub(st.counted)
	}
	st.counted = now
	if left, bounded := st.pace.left(); bounded && left <= 0 && !st.whole && !st.replied && !st.expect {
		if st.sid != 0 {
			_ = l.server.framer.WriteRSTStream(st.sid, http2.ErrCodeCancel)
			l.hold(st)
		}
		l.refuse(st, http.StatusRequestTimeout)
		return
	}
	if !st.asked && now.Sub(st.seen) >= pause && l.proxy.gate.Limit() >= 2 { // half of them is one or more
		l.enter(st)
		return
	}
	if st.visit == nil || st.toClient > 0 && l.linkToClient > 0 || l.proxy.gate.Limit() == 0 {
		st.stalled = time.Time{}
		return
	}
	if st.stalled.IsZero() {
		st.stalled = now
	}
	if now.Sub(st.stalled) >= l.proxy.options.Abandoned {
		_ = l.client.framer.WriteRSTStream(st.id, http2.ErrCodeCancel)
		l.leaves(st, http2.ErrCodeCancel)
	}
}
