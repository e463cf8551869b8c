package gate

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	frameSize = 16 << 10 // bytes of a frame at most, HTTP/2's default
	firstSize = 65535    // of a window, HTTP/2's default
	tableSize = 4096     // of HPACK's table, HTTP/2's default
	sweeping  = pause / 4

	prefaceHead = "PRI * HTTP/2.0\r\n\r\n" // that begins http2.ClientPreface like a request
)

// A link is a caller's connection of HTTP/2 with the one to the server that carries its streams.
// Fields, data, windows, settings and resets pass from end to end; a stream has another number at
// the server, where streams are opened in the order in which the gate lets them in. The gate
// answers pings, refuses pushes and drops priorities.
//
// A window that one end grants is granted by the gate to the other. Bytes that the gate does not
// pass on are therefore granted again by the gate itself.
type link struct {
	proxy  *Proxy
	ip     string
	client *side
	ready  chan struct{} // closed when settled is true

	mu       sync.Mutex
	server   *side // nil until it is dialled
	streams  map[uint32]*stream
	byServer map[uint32]*stream
	last     uint32 // the caller's last stream
	next     uint32 // the server's next one
	settled  bool   // the caller has got the server's settings, or the gate's
	dead     bool   // there is no server
	away     bool   // the caller opens no more streams
	closed   bool
	sweeps   bool
	// Windows, which the gate watches only.
	toServer, toClient         int64 // of a new stream, as the other end has set it
	linkToServer, linkToClient int64
}

// A side is one of the two connections.
type side struct {
	conn    net.Conn
	in      *bufio.Reader
	out     *bufio.Writer
	framer  *http2.Framer
	block   bytes.Buffer
	encoder *hpack.Encoder
}

func newSide(c net.Conn, in io.Reader, to io.Writer, mostFields uint32) *side {
	s := &side{conn: c, in: bufio.NewReaderSize(in, smallBuffer), out: bufio.NewWriterSize(to, smallBuffer)}
	s.framer = http2.NewFramer(s.out, s.in)
	s.framer.SetReuseFrames()
	s.framer.SetMaxReadFrameSize(frameSize)
	s.framer.ReadMetaHeaders = hpack.NewDecoder(tableSize, nil)
	s.framer.MaxHeaderListSize = mostFields
	s.encoder = hpack.NewEncoder(&s.block)
	return s
}

// patient writes to a caller, who loses the connection where he takes nothing for as long as a
// request may be abandoned.
type patient struct{ *conn }

// Write implements [io.Writer].
func (p patient) Write(b []byte) (int, error) {
	deadline := time.Time{}
	if p.proxy.gate.Limit() > 0 {
		deadline = time.Now().Add(p.proxy.options.Abandoned)
	}
	if err := p.net.SetWriteDeadline(deadline); err != nil {
		return 0, err
	}
	return p.net.Write(b)
}

// more reports whether the next frame has come as a whole, so that reading it does not wait.
func (s *side) more() bool {
	if s.in.Buffered() < 9 {
		return false
	}
	b, err := s.in.Peek(9)
	return err == nil && s.in.Buffered() >= 9+int(b[0])<<16+int(b[1])<<8+int(b[2])
}

// fields writes a block of fields.
func (s *side) fields(id uint32, fields []hpack.HeaderField, end bool) {
	s.block.Reset()
	for _, f := range fields {
		_ = s.encoder.WriteField(f) // into memory
	}
	rest := s.block.Bytes()
	part := rest[:min(len(rest), frameSize)]
	rest = rest[len(part):]
	_ = s.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: part, EndStream: end, EndHeaders: len(rest) == 0})
	for len(rest) > 0 {
		part, rest = rest[:min(len(rest), frameSize)], rest[min(len(rest), frameSize):]
		_ = s.framer.WriteContinuation(id, len(rest) == 0, part)
	}
}

// grant lets the other end send so many bytes more; 0 is the stream of the whole connection.
func (s *side) grant(id uint32, n int) {
	if n > 0 {
		_ = s.framer.WriteWindowUpdate(id, uint32(n))
	}
}

// A stream is one request of HTTP/2 and its answer.
type stream struct {
	id, sid  uint32 // the caller's number and the server's; 0 = the server has not got it
	fields   []hpack.HeaderField
	trailers []hpack.HeaderField
	pending  []byte // of the body, until the request is in
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

	whole   bool // the body has come, or the first message of gRPC
	ended   bool // the caller has ended its half
	replied bool // the final answer has begun
	done    bool // the server has ended its half
	failed  bool
	calls   bool   // it is the answer of a call of gRPC
	status  string // of the call

	toServer, toClient int64 // windows
	pace               pace
	seen, counted      time.Time // of the last bytes; up to which pace counts
	stalled            time.Time // since when the caller takes none of the answer
}

func (c *conn) newLink() *link {
	_ = c.net.SetDeadline(time.Now().Add(headTime))
	from := io.MultiReader(bytes.NewReader(bytes.Clone(c.in.bytes())), c.net)
	c.in.discard(len(c.in.bytes()))
	l := &link{
		proxy: c.proxy, ip: c.ip, client: newSide(c.net, from, patient{c}, mostHead), next: 1, ready: make(chan struct{}),
		streams: map[uint32]*stream{}, byServer: map[uint32]*stream{},
		toServer: firstSize, toClient: firstSize, linkToServer: firstSize, linkToClient: firstSize,
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link = l
	return l
}

// serveHTTP2 serves a connection that began with the preface of HTTP/2.
func (c *conn) serveHTTP2() {
	c.in.discard(len(prefaceHead))
	l := c.newLink()
	settings, err := l.preface(http2.ClientPreface[len(prefaceHead):])
	if err != nil {
		c.refuse(refuse(http.StatusBadRequest, "%v", err), "")
		return
	}
	l.mu.Lock()
	nc, err := c.proxy.dial(context.Background())
	if err == nil {
		c.mu.Lock()
		c.server = nc
		c.mu.Unlock()
		l.server = newSide(nc, nc, nc, mostAnswerHead)
		l.open(settings)
		go l.answers(l.server)
	} else {
		l.serverEnds(err)
	}
	l.mu.Unlock()
	l.run()
}

// serveHTTP2 serves a connection that the server has upgraded to HTTP/2: the request is its first
// stream (RFC 7540, section 3.2).
func (x *exchange) serveHTTP2(a *head) {
	if x.sent != nil {
		<-x.sent
	}
	x.answer(a.raw)
	x.up.discard(len(a.raw))
	l := x.newLink()
	_ = x.server.SetDeadline(time.Time{})
	l.server = newSide(x.server, io.MultiReader(bytes.NewReader(bytes.Clone(x.up.bytes())), x.server), x.server, mostAnswerHead)
	l.last, l.next = 1, 3
	st := &stream{id: 1, sid: 1, ended: true, whole: true, asked: true, visit: x.visit, toClient: firstSize}
	x.isOut = true // the stream leaves
	l.streams[1], l.byServer[1] = st, st
	go l.answers(l.server)
	if settings, err := l.preface(http2.ClientPreface); err == nil {
		l.mu.Lock()
		l.open(settings)
		l.mu.Unlock()
		l.run()
		return
	}
	l.close()
}

// preface reads the rest of the caller's preface and its settings.
func (l *link) preface(want string) (*http2.SettingsFrame, error) {
	rest := make([]byte, len(want))
	if _, err := io.ReadFull(l.client.in, rest); err != nil || string(rest) != want {
		return nil, errors.New("the preface of HTTP/2 is incomplete")
	}
	f, err := l.client.framer.ReadFrame()
	settings, ok := f.(*http2.SettingsFrame)
	if err != nil || !ok || settings.IsAck() {
		return nil, errors.New("the preface of HTTP/2 has no settings")
	}
	return settings, l.client.conn.SetDeadline(time.Time{})
}

// open passes preface and settings on to the server.
func (l *link) open(settings *http2.SettingsFrame) {
	_, _ = l.server.out.WriteString(http2.ClientPreface)
	l.settings(settings, l.client, l.server, http2.Setting{ID: http2.SettingEnablePush, Val: 0})
	l.flush()
}

// run takes the caller's frames until the connection ends. The server's settings have to be the
// first that the caller gets.
func (l *link) run() {
	select {
	case <-l.ready:
	case <-time.After(dialTime):
		l.mu.Lock()
		l.serverEnds(os.ErrDeadlineExceeded)
		l.mu.Unlock()
	}
	for l.step() {
	}
	l.close()
}

// settings passes the settings of one end on to the other, but those of the connection itself.
func (l *link) settings(f *http2.SettingsFrame, from, to *side, more ...http2.Setting) {
	list := more
	_ = f.ForeachSetting(func(s http2.Setting) error {
		switch s.ID {
		case http2.SettingHeaderTableSize:
			from.encoder.SetMaxDynamicTableSizeLimit(min(s.Val, tableSize))
		case http2.SettingEnablePush, http2.SettingMaxFrameSize:
		case http2.SettingMaxConcurrentStreams:
			if from == l.server {
				list = slices.DeleteFunc(list, func(m http2.Setting) bool { return m.ID == s.ID })
				list = append(list, http2.Setting{ID: s.ID, Val: min(s.Val, MostLimit)})
			}
		case http2.SettingInitialWindowSize:
			l.window(from, int64(s.Val))
			list = append(list, s)
		default:
			list = append(list, s)
		}
		return nil
	})
	_ = to.framer.WriteSettings(list...)
}

// window notes the size of new streams' windows that one end has set, which changes those of all.
func (l *link) window(from *side, size int64) {
	for _, st := range l.streams {
		if from == l.server {
			st.toServer += size - l.toServer
		} else {
			st.toClient += size - l.toClient
		}
	}
	if from == l.server {
		l.toServer = size
	} else {
		l.toClient = size
	}
}

// flush writes out what is written. A connection that cannot be written to ends.
func (l *link) flush() {
	for _, s := range []*side{l.client, l.server} {
		if s != nil && s.out.Flush() != nil {
			_ = s.conn.Close()
		}
	}
}

// step takes a frame of the caller and returns whether another may follow.
func (l *link) step() bool {
	if !l.client.more() {
		l.patience()
	}
	f, err := l.client.framer.ReadFrame()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		return l.bad(err)
	}
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		l.request(f)
	case *http2.DataFrame:
		l.data(f)
	case *http2.RSTStreamFrame:
		if st := l.streams[f.StreamID]; st != nil {
			l.leaves(st, f.ErrCode)
		}
	case *http2.WindowUpdateFrame:
		l.widen(f)
	case *http2.SettingsFrame:
		switch {
		case l.dead && !f.IsAck():
			_ = l.client.framer.WriteSettingsAck()
		case l.dead:
		case f.IsAck():
			_ = l.server.framer.WriteSettingsAck()
		default:
			l.settings(f, l.client, l.server)
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			_ = l.client.framer.WritePing(true, f.Data)
		}
	case *http2.GoAwayFrame:
		l.away = true
	case *http2.PushPromiseFrame:
		return false
	}
	if !l.client.more() {
		l.flush()
	}
	return true
}

// patience bounds the wait for the caller's next frame.
func (l *link) patience() {
	l.mu.Lock()
	defer l.mu.Unlock()
	deadline := time.Time{}
	if len(l.streams) == 0 {
		deadline = time.Now().Add(idleTime)
		if l.away {
			deadline = time.Unix(1, 0)
		}
	}
	_ = l.client.conn.SetReadDeadline(deadline)
}

// bad handles an error of reading the caller's frames: of one stream, or of all.
func (l *link) bad(err error) bool {
	defer l.flush()
	var one http2.StreamError
	if errors.As(err, &one) {
		l.last = max(l.last, one.StreamID)
		_ = l.client.framer.WriteRSTStream(one.StreamID, one.Code)
		if st := l.streams[one.StreamID]; st != nil {
			l.leaves(st, one.Code)
		}
		return true
	}
	var all http2.ConnectionError
	if errors.As(err, &all) {
		_ = l.client.framer.WriteGoAway(l.last, http2.ErrCode(all), nil)
	}
	return false
}

// request takes the fields of a new stream, or the trailers of one that is there.
func (l *link) request(f *http2.MetaHeadersFrame) {
	st := l.streams[f.StreamID]
	if st == nil && (f.StreamID <= l.last || l.away) {
		return // it has ended, or comes after the last that the caller may open
	}
	if st != nil {
		if st.ended || !f.StreamEnded() {
			return
		}
		st.trailers = slices.Clone(f.Fields)
		l.sent(st, nil, true)
		return
	}
	l.last = f.StreamID
	st = &stream{
		id: f.StreamID, fields: slices.Clone(f.Fields), ended: f.StreamEnded(), whole: f.StreamEnded(),
		toServer: l.toServer, toClient: l.toClient, pace: l.proxy.pace(), seen: time.Now(),
	}
	st.counted = st.seen
	for _, h := range st.fields {
		switch {
		case h.Name == ":method":
			st.tunnel = h.Value == http.MethodConnect
		case h.Name == "content-type":
			st.grpc = strings.HasPrefix(h.Value, grpcType)
		case h.Name == "expect":
			st.expect = true
		}
	}
	l.streams[st.id] = st
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
		l.regrant(nil, int(f.Length))
		return
	}
	st.toServer -= int64(f.Length)
	l.regrant(st, int(f.Length)-len(data)) // padding
	st.seen = time.Now()
	st.pace.bytes += int64(len(data))
	l.sent(st, data, f.StreamEnded())
}

// regrant grants the caller again what the gate does not pass on.
func (l *link) regrant(st *stream, n int) {
	l.linkToServer += int64(n)
	l.client.grant(0, n)
	if st != nil && !st.ended {
		st.toServer += int64(n)
		l.client.grant(st.id, n)
	}
}

// sent passes on what the caller has sent of a stream, or keeps it until the request is in.
func (l *link) sent(st *stream, data []byte, end bool) {
	st.ended = end
	st.whole = st.whole || end || st.grpc && st.first.add(data)
	if st.sid == 0 {
		if !l.proxy.memory.take(len(data)) {
			l.refuse(st, http.StatusServiceUnavailable)
			l.regrant(nil, len(data))
			return
		}
		st.pending = append(st.pending, data...)
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

// pass writes data and, at the end, trailers to the server.
func (l *link) pass(st *stream, data []byte) {
	end := st.ended && st.trailers == nil
	for first := true; first || len(data) > 0; first = false {
		part := data[:min(len(data), frameSize)]
		data = data[len(part):]
		if len(part) > 0 || end {
			_ = l.server.framer.WriteData(st.sid, end && len(data) == 0, part)
		}
	}
	if st.trailers != nil {
		l.server.fields(st.sid, st.trailers, true)
	}
}

// enter lets a stream in when its turn comes.
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

// came ends the wait for the body.
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
	if st.open && st.whole { // it came while the request waited
		st.open = false
		v.whole()
	}
	fields := l.forwarded(st.fields)
	l.server.fields(st.sid, fields, st.ended && len(st.pending) == 0 && st.trailers == nil)
	l.server.grant(st.sid, st.granted)
	if len(st.pending) > 0 || st.trailers != nil {
		l.pass(st, st.pending)
	}
	l.forget(st)
	st.fields = nil
	l.sweep()
}

// forget gives back what a stream held until it was in.
func (l *link) forget(st *stream) {
	l.proxy.memory.give(len(st.pending))
	st.pending = nil
}

// forwarded adds the caller's address as the flags of the command say.
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
		l.regrant(nil, len(st.pending))
		l.forget(st)
	}
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

// leaves ends a stream whose caller has left. The server gets a reset: from then on nothing shows
// when it has ended, and the request keeps its place as long as it may.
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

// goAway asks the caller to open its next streams on another connection.
func (l *link) goAway() {
	if !l.away {
		l.away = true
		_ = l.client.framer.WriteGoAway(l.last, http2.ErrCodeNo, nil)
	}
}

// drain is goAway of another goroutine.
func (l *link) drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.goAway()
	l.flush()
	if len(l.streams) == 0 {
		_ = l.client.conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// answers takes the server's frames until its connection ends.
func (l *link) answers(s *side) {
	for {
		f, err := s.framer.ReadFrame()
		l.mu.Lock()
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
			l.linkToServer += int64(f.Increment)
			l.client.grant(0, int(f.Increment))
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

// serverEnds ends the caller's connection with the server's. Where there was none, or it spoke no
// HTTP/2, each request is answered that there is no server, and the caller is asked to make
// another connection.
func (l *link) serverEnds(err error) {
	if l.closed || l.dead {
		return
	}
	l.dead = true
	defer l.flush()
	if !l.settled {
		l.proxy.failed(err)
		_ = l.client.framer.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: MostLimit})
		_ = l.client.framer.WriteSettingsAck()
		l.settle()
		return
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

// close ends what is left of the caller's streams.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, st := range l.streams {
		l.hold(st)
		l.remove(st)
	}
	if l.server != nil {
		_ = l.server.conn.Close()
	}
}

// sweep begins to look at the streams now and then, as long as there are any.
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

// lookAt ends a stream whose body comes too slowly, or whose caller takes none of its answer. The
// time alone counts in which the caller could send, or the server would.
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
