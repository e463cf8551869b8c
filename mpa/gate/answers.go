package gate

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http2"
)

// answers takes the server's frames until its connection ends.
func (l *link) answers(s *side) {
	for {
		f, err := s.framer.ReadFrame()
		l.mu.Lock()
		if l.dead {
			l.mu.Unlock()
			return
		}
		if err != nil {
			var one http2.StreamError
			if !errors.As(err, &one) {
				l.serverEnds(err)
				l.mu.Unlock()
				return
			}
			if st := l.byServer[one.StreamID]; st != nil {
				_ = s.framer.WriteRSTStream(one.StreamID, one.Code)
				l.broken(st, one.Code)
			}
		} else {
			l.answer(s, f)
		}
		if !s.more() {
			l.flush()
		}
		l.mu.Unlock()
	}
}

func (l *link) answer(s *side, f http2.Frame) {
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		if st := l.byServer[f.StreamID]; st != nil {
			l.reply(st, f)
		}
	case *http2.DataFrame:
		data, st := f.Data(), l.byServer[f.StreamID]
		if st == nil || st.done {
			s.grant(0, int(f.Length))
			return
		}
		if padding := int(f.Length) - len(data); padding > 0 {
			s.grant(0, padding)
			s.grant(f.StreamID, padding)
		}
		l.linkToClient -= int64(len(data))
		st.toClient -= int64(len(data))
		_ = l.client.framer.WriteData(st.id, f.StreamEnded(), data)
		st.done = f.StreamEnded()
		l.end(st)
	case *http2.RSTStreamFrame:
		if st := l.byServer[f.StreamID]; st != nil {
			l.broken(st, f.ErrCode)
		}
	case *http2.WindowUpdateFrame:
		if f.StreamID == 0 {
			l.window += int64(f.Increment)
			l.regrant(int(f.Increment))
			l.unblock()
		} else if st := l.byServer[f.StreamID]; st != nil && !st.ended {
			st.toServer += int64(f.Increment)
			l.client.grant(st.id, int(f.Increment))
		}
	case *http2.SettingsFrame:
		switch {
		case f.IsAck():
			_ = l.client.framer.WriteSettingsAck()
		case l.settled:
			l.settings(f, s, l.client)
		default:
			l.settings(f, s, l.client, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: MostLimit})
			l.flush()
			l.settle()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			_ = s.framer.WritePing(true, f.Data)
		}
	case *http2.GoAwayFrame:
		for _, st := range l.streams {
			if st.sid == 0 || st.sid > f.LastStreamID {
				l.broken(st, http2.ErrCodeRefusedStream) // the caller may send it again
			}
		}
		l.goAway()
	}
}

// reply passes on an interim answer, the fields of the final one, or its trailers.
func (l *link) reply(st *stream, f *http2.MetaHeadersFrame) {
	if f.Truncated {
		l.server.framer.WriteRSTStream(st.sid, http2.ErrCodeEnhanceYourCalm) //nolint:errcheck // flush reports it
		l.broken(st, http2.ErrCodeEnhanceYourCalm)
		return
	}
	status, err := strconv.Atoi(f.PseudoValue("status"))
	if err == nil && status >= 200 {
		st.replied = true
		st.failed = status >= http.StatusInternalServerError
	}
	for _, h := range f.RegularFields() {
		switch h.Name {
		case "content-type":
			st.calls = strings.HasPrefix(h.Value, grpcType)
		case "grpc-status":
			st.status = h.Value
		}
	}
	l.client.fields(st.id, f.Fields, f.StreamEnded())
	if st.tunnel && st.visit != nil && status >= 200 && status < 300 {
		st.visit.leave(Answered) // it counts among the upgraded
		st.visit = nil
	}
	st.done = f.StreamEnded()
	if st.replied && l.proxy.closes() {
		l.goAway()
	}
	l.end(st)
}

// end ends a stream's visit when the server has ended it, and the stream when both have.
func (l *link) end(st *stream) {
	if !st.done {
		return
	}
	if st.visit != nil {
		o := Answered
		if st.failed || st.calls && serverFault(st.status) {
			o = Failed
		}
		st.visit.leave(o)
		st.visit = nil
	}
	if st.ended {
		l.remove(st)
	}
}

// broken ends a stream that the server has reset.
func (l *link) broken(st *stream, code http2.ErrCode) {
	_ = l.client.framer.WriteRSTStream(st.id, code)
	if st.visit != nil {
		st.visit.leave(Failed)
		st.visit = nil
		l.proxy.failed(fmt.Errorf("stream reset: %v", code))
	}
	l.remove(st)
}

func (l *link) settle() {
	l.settled = true
	close(l.ready)
}

// serverEnds ends the caller's connection with the server's. If there was none, or it spoke
// no HTTP/2, each request is answered that there is no server, and a GOAWAY makes the caller
// open another connection.
func (l *link) serverEnds(err error) {
	if l.closed || l.dead {
		return
	}
	l.dead = true
	defer l.flush()
	if !l.settled {
		if errors.Is(err, http2.ErrFrameTooLarge) { // as the first bytes of HTTP/1 read
			err = errors.New("the target does not speak HTTP/2")
		}
		l.proxy.failed(err)
		_ = l.client.framer.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: MostLimit})
		_ = l.client.framer.WriteSettingsAck()
		l.settle()
		if len(l.streams) == 0 {
			return
		}
	}
	for _, st := range l.streams {
		if st.visit != nil {
			st.visit.leave(Failed)
			st.visit = nil
		}
	}
	l.flush()
	_ = l.client.conn.Close()
}
