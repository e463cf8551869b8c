package gate

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	frameSize = 16 << 10 // bytes of a frame at most, HTTP/2's default
	firstSize = 65535    // of a window, HTTP/2's default
	tableSize = 4096     // of HPACK's table, HTTP/2's default
	sweeping  = pause

	prefaceHead = "PRI * HTTP/2.0\r\n\r\n" // that begins http2.ClientPreface like a request
)

// A link is a caller's connection of HTTP/2 with the one to the server that carries its streams.
// Fields, data, windows, settings and resets pass from end to end; a stream has another number at
// the server, where streams are opened in the order in which the gate lets them in. The gate
// answers pings, refuses pushes and drops priorities.
//
// A window that one end grants is granted by the gate to the other. Bytes that the gate does not
// pass on, or keeps until their request is in, are granted again by the gate itself: else a request
// that waits would keep the bodies of the others back. Once it is in, the gate grants so much less,
// and until then bytes beyond the server's window wait in the backlog.
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
	// Windows: of a new stream, as the other end has set it; of the whole connections, as the
	// caller sees it towards the server and the server towards the caller; and the one
	// granted by the server.
	toServer, toClient, linkToServer, linkToClient, window int64

	owed    int64 // granted by the gate for bytes that the server got, and not by the server yet
	backlog []part
}

// A part of a body waits for the server's window.
type part struct {
	stream *stream
	data   []byte
	last   bool
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

// patient writes to an end and drops the connection if it reads nothing for a while.
type patient struct {
	net.Conn
	patience func() time.Duration
}

// Write implements [io.Writer].
func (p patient) Write(b []byte) (int, error) {
	if err := p.SetWriteDeadline(time.Now().Add(p.patience())); err != nil {
		return 0, err
	}
	return p.Conn.Write(b)
}

// more reports whether the next frame is buffered as a whole, so that reading it does not
// wait.
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

// grant lets the other end send n bytes more; 0 is the stream of the whole connection.
func (s *side) grant(id uint32, n int) {
	if n > 0 {
		_ = s.framer.WriteWindowUpdate(id, uint32(n))
	}
}

func (c *conn) newLink() *link {
	_ = c.net.SetDeadline(time.Now().Add(headTime))
	from := io.MultiReader(bytes.NewReader(bytes.Clone(c.in.bytes())), c.net)
	c.in.discard(len(c.in.bytes()))
	l := &link{
		proxy: c.proxy, ip: c.ip, client: newSide(c.net, from, patient{c.net, c.proxy.patience}, mostHead), next: 1, ready: make(chan struct{}),
		streams: map[uint32]*stream{}, byServer: map[uint32]*stream{},
		toServer: firstSize, toClient: firstSize, linkToServer: firstSize, linkToClient: firstSize, window: firstSize,
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link = l
	return l
}

// serveHTTP2 serves a connection that began with the preface of HTTP/2.
func (c *conn) serveHTTP2() {
	c.dropServer()
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
		l.server = newSide(nc, nc, patient{nc, serverPatience}, mostAnswerHead)
		l.open(settings)
		go l.answers(l.server)
	} else {
		l.serverEnds(err)
	}
	l.mu.Unlock()
	l.run()
	c.linger()
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
	l.server = newSide(x.server, io.MultiReader(bytes.NewReader(bytes.Clone(x.up.bytes())), x.server), patient{x.server, serverPatience}, mostAnswerHead)
	l.last, l.next = 1, 3
	st := &stream{id: 1, sid: 1, ended: true, whole: true, asked: true, visit: x.visit, toClient: firstSize}
	x.isOut = true // the stream leaves
	l.streams[1], l.byServer[1] = st, st
	l.mu.Lock()
	l.sweep()
	l.mu.Unlock()
	go l.answers(l.server)
	if settings, err := l.preface(http2.ClientPreface); err == nil {
		l.mu.Lock()
		l.open(settings)
		l.mu.Unlock()
		l.run()
		x.linger()
		return
	}
	l.close()
}

func serverPatience() time.Duration { return idleTime }

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
			l.resize(from, int64(s.Val))
			list = append(list, s)
		default:
			list = append(list, s)
		}
		return nil
	})
	_ = to.framer.WriteSettings(list...)
}

// resize notes the size of new streams' windows that one end has set, which changes those of all.
func (l *link) resize(from *side, size int64) {
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

// flush writes out the buffers. A connection that cannot be written to ends.
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
	if one, ok := errors.AsType[http2.StreamError](err); ok {
		l.last = max(l.last, one.StreamID)
		_ = l.client.framer.WriteRSTStream(one.StreamID, one.Code)
		if st := l.streams[one.StreamID]; st != nil {
			l.leaves(st, one.Code)
		}
		return true
	}
	if all, ok := errors.AsType[http2.ConnectionError](err); ok {
		_ = l.client.framer.WriteGoAway(l.last, http2.ErrCode(all), nil)
	}
	return false
}

// goAway makes the caller open its next streams on another connection.
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

// close ends the remaining streams of the caller.
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
