package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A message of HTTP/2: fields of its head, after interim ones, and of its trailers, and its body.
type message struct {
	blocks  [][]hpack.HeaderField
	body    []byte
	trailer []hpack.HeaderField
	reset   *http2.ErrCode // the stream ends with it and not with the trailers
}

// fields returns the values of each name in their order.
func fields(block []hpack.HeaderField) map[string][]string {
	values := map[string][]string{}
	for _, f := range block {
		values[f.Name] = append(values[f.Name], f.Value)
	}
	return values
}

// differs returns how another message is not the same but for the caller, "" where it is.
func (m *message) differs(other *message, caller string) string {
	if len(m.blocks) != len(other.blocks) {
		return fmt.Sprintf("%d blocks of fields and not %d", len(other.blocks), len(m.blocks))
	}
	for i := range m.blocks {
		want, got := fields(m.blocks[i]), fields(other.blocks[i])
		if caller != "" {
			const name = "x-forwarded-for"
			had := want[name]
			if len(had) > 0 && had[len(had)-1] == "" {
				had = had[:len(had)-1]
			}
			whole := strings.Join(append(slices.Clone(had), caller), ", ")
			if strings.Join(got[name], ", ") != whole {
				return fmt.Sprintf("%s is %q", name, got[name])
			}
			delete(want, name)
			delete(got, name)
		}
		if !maps.EqualFunc(want, got, slices.Equal) {
			return fmt.Sprintf("fields are\n%q\nand not\n%q", got, want)
		}
	}
	switch {
	case !bytes.Equal(m.body, other.body):
		return fmt.Sprintf("the body has %d bytes, %.40q, and not %d, %.40q", len(other.body), other.body, len(m.body), m.body)
	case !maps.EqualFunc(fields(m.trailer), fields(other.trailer), slices.Equal):
		return fmt.Sprintf("trailers are\n%q\nand not\n%q", other.trailer, m.trailer)
	case (m.reset == nil) != (other.reset == nil) || m.reset != nil && *m.reset != *other.reset:
		return fmt.Sprintf("the stream is reset by %v and not %v", other.reset, m.reset)
	}
	return ""
}

// A peer is one side of a connection of HTTP/2 whose messages are seen as they are.
type peer struct {
	conn   net.Conn
	framer *http2.Framer

	mu      sync.Mutex
	encoder *hpack.Encoder
	encoded bytes.Buffer
	window  int // bytes of bodies that may be sent
	more    *sync.Cond
	ended   bool
	streams map[uint32]*message
	whole   func(stream uint32, m *message) // called when a message is read
}

func newPeer(conn net.Conn) *peer {
	p := &peer{conn: conn, framer: http2.NewFramer(conn, conn), window: 65535, streams: map[uint32]*message{}}
	p.encoder = hpack.NewEncoder(&p.encoded)
	p.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	p.more = sync.NewCond(&p.mu)
	return p
}

func (p *peer) begin() error {
	return errors.Join(p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 10000}),
		p.framer.WriteWindowUpdate(0, 1<<30))
}

// read reads frames until the connection ends.
func (p *peer) read() error {
	for {
		frame, err := p.framer.ReadFrame()
		p.mu.Lock()
		if err != nil {
			p.ended = true
			p.more.Broadcast()
			p.mu.Unlock()
			return err
		}
		stream, whole := frame.Header().StreamID, false
		m := p.streams[stream]
		if m == nil {
			m = &message{}
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = p.framer.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				err = p.framer.WritePing(true, f.Data)
			}
		case *http2.WindowUpdateFrame:
			if stream == 0 {
				p.window += int(f.Increment)
				p.more.Broadcast()
			}
		case *http2.MetaHeadersFrame:
			p.streams[stream] = m
			if final(m.blocks) {
				m.trailer = slices.Clone(f.Fields)
			} else {
				m.blocks = append(m.blocks, slices.Clone(f.Fields))
			}
			whole = f.StreamEnded()
		case *http2.DataFrame:
			m.body = append(m.body, f.Data()...)
			whole = f.StreamEnded()
		case *http2.RSTStreamFrame:
			if p.streams[stream] != nil {
				code := f.ErrCode
				m.reset, whole = &code, true
			}
		}
		if whole && stream != 0 {
			delete(p.streams, stream)
		}
		p.mu.Unlock()
		if whole && stream != 0 {
			p.whole(stream, m)
		}
		if err != nil {
			return err
		}
	}
}

// final reports whether the last block is no interim answer.
func final(blocks [][]hpack.HeaderField) bool {
	if len(blocks) == 0 {
		return false
	}
	first := blocks[len(blocks)-1][0]
	return first.Name != ":status" || first.Value[0] != '1'
}

func (p *peer) fields(stream uint32, block []hpack.HeaderField, end bool) {
	p.encoded.Reset()
	for _, f := range block {
		_ = p.encoder.WriteField(f)
	}
	_ = p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: p.encoded.Bytes(), EndHeaders: true, EndStream: end})
}

// send writes a message. Its bodies are smaller than the window of a stream.
func (p *peer) send(stream uint32, m *message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, block := range m.blocks {
		p.fields(stream, block, i == len(m.blocks)-1 && len(m.body) == 0 && m.trailer == nil && m.reset == nil)
	}
	for body := m.body; len(body) > 0; {
		n := min(len(body), 5000)
		for p.window < n && !p.ended {
			p.more.Wait()
		}
		p.window -= n
		_ = p.framer.WriteData(stream, len(body) == n && m.trailer == nil && m.reset == nil, body[:n])
		body = body[n:]
	}
	switch {
	case m.reset != nil:
		_ = p.framer.WriteRSTStream(stream, *m.reset)
	case m.trailer != nil:
		p.fields(stream, m.trailer, true)
	}
}

// A server2 keeps requests and sends given answers.
type server2 struct {
	listener net.Listener
	answers  *sync.Map // of *message by the value of x-case
	got      sync.Map
}

func valueOf(block []hpack.HeaderField, name string) string {
	return strings.Join(fields(block)[name], ",")
}

func newServer2(t *testing.T, answers *sync.Map) *server2 {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &server2{listener: listener, answers: answers}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(conn)
		}
	}()
	return s
}

func (s *server2) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(conn, preface); err != nil || string(preface) != http2.ClientPreface {
		return
	}
	p := newPeer(conn)
	answer := func(head []hpack.HeaderField) *message {
		a, ok := s.answers.Load(valueOf(head, "x-case"))
		if !ok {
			return &message{blocks: [][]hpack.HeaderField{{{Name: ":status", Value: "500"}}}}
		}
		return a.(*message)
	}
	p.whole = func(stream uint32, m *message) {
		s.got.Store(valueOf(m.blocks[0], "x-case"), m)
		go p.send(stream, answer(m.blocks[0]))
	}
	if p.begin() == nil {
		_ = p.read()
	}
}

// call2 sends requests as streams of one connection and returns their answers.
func call2(address string, requests []*message) ([]*message, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(3 * time.Second))
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return nil, err
	}
	p := newPeer(conn)
	answers, left := make([]*message, len(requests)), len(requests)
	done := make(chan struct{})
	p.whole = func(stream uint32, m *message) {
		if i := int(stream-1) / 2; i < len(answers) && answers[i] == nil {
			answers[i] = m
			if left--; left == 0 {
				close(done)
			}
		}
	}
	if err := p.begin(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- p.read() }()
	for i, r := range requests {
		p.send(uint32(2*i+1), r)
	}
	select {
	case <-done:
		return answers, nil
	case err := <-ended:
		return nil, fmt.Errorf("%d of %d streams are not answered: %w", left, len(requests), err)
	}
}

func (m *maker) two(names ...string) []hpack.HeaderField {
	var block []hpack.HeaderField
	for range m.IntN(6) {
		value := strings.Trim(strings.ReplaceAll(m.value(), "\t", " "), " ")
		block = append(block, hpack.HeaderField{Name: names[m.IntN(len(names))], Value: value, Sensitive: m.chance(.1)})
	}
	return block
}

// exchange draws a request of HTTP/2 and its answer.
func (m *maker) exchange() (request, reply *message) {
	id := fmt.Sprint(m.first + m.next)
	m.next++
	path := m.target()
	for path[0] != '/' {
		path = m.target()
	}
	method := oneOf(m, "GET", "POST", "PUT", "PROPFIND", "HEAD", "X-Y", "DELETE")
	if m.chance(.05) {
		method, path = "OPTIONS", "*"
	}
	head := []hpack.HeaderField{{Name: ":method", Value: method}, {Name: ":scheme", Value: oneOf(m, "http", "http", "https")}, {Name: ":authority", Value: oneOf(m, "a.example", "a.example:81", "[::1]:80")}, {Name: ":path", Value: path}, {Name: "x-case", Value: id}}
	head = append(head, m.two("cookie", "cookie", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "forwarded", "foo", "accept-encoding", "user-agent", "via", "x_under", "accept", "grpc-timeout", "priority", "range", "keep")...)
	if m.chance(.3) {
		head = append(head, hpack.HeaderField{Name: "te", Value: "trailers"})
	}
	request = &message{blocks: [][]hpack.HeaderField{head}}
	if method != "GET" && method != "HEAD" && m.chance(.7) {
		request.body = m.bytes(oneOf(m, 0, 10, 3000, 12000))
		if m.chance(.5) {
			request.blocks[0] = append(head, hpack.HeaderField{Name: "content-length", Value: fmt.Sprint(len(request.body))})
		}
		if m.chance(.4) {
			request.trailer = append(m.two("x-sum", "grpc-status", "x-other"), hpack.HeaderField{Name: "x-end", Value: "1"})
		}
	}
	reply = &message{}
	for m.chance(.2) {
		reply.blocks = append(reply.blocks, append([]hpack.HeaderField{{Name: ":status", Value: oneOf(m, "103", "102", "199")}}, m.two("link", "x-a")...))
	}
	code := oneOf(m, "200", "200", "200", "204", "304", "404", "429", "500", "503", "599", "299")
	block := append([]hpack.HeaderField{{Name: ":status", Value: code}}, m.two("set-cookie", "set-cookie", "server", "date", "foo", "vary", "content-type", "grpc-status", "www-authenticate")...)
	if method != "HEAD" && code != "204" && code != "304" {
		reply.body = m.bytes(oneOf(m, 0, 10, 3000, 12000))
		if m.chance(.4) {
			block = append(block, hpack.HeaderField{Name: "content-length", Value: fmt.Sprint(len(reply.body))})
		} else if m.chance(.15) {
			code := oneOf(m, http2.ErrCodeCancel, http2.ErrCodeInternal, http2.ErrCodeRefusedStream, http2.ErrCodeEnhanceYourCalm, http2.ErrCodeHTTP11Required)
			reply.reset = &code
		}
		if reply.reset == nil && m.chance(.4) {
			reply.trailer = append(m.two("x-sum", "grpc-message", "grpc-status-details-bin"), hpack.HeaderField{Name: "grpc-status", Value: "0"})
			if m.chance(.5) {
				block = append(block, hpack.HeaderField{Name: "trailer", Value: "grpc-status"})
			}
		}
	}
	reply.blocks = append(reply.blocks, block)
	m.answers.Store(id, reply)
	return request, reply
}

// TestTransparentHTTP2: fields in the order of their values, bodies, trailers, interim answers
// and codes of reset streams pass the gate as they are. Streams of one connection meet.
func TestTransparentHTTP2(t *testing.T) {
	answers := new(sync.Map)
	direct, through := newServer2(t, answers), newServer2(t, answers)
	gate := startGate(t, through.listener.Addr().String(), "--limit", "1000")
	const workers = 8
	var mu sync.Mutex
	streams, different := 0, 0
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			m := &maker{Rand: rand.New(rand.NewPCG(4, uint64(w))), first: w * 1_000_000, answers: answers}
			for m.next < *transparentFlag/4/workers {
				var requests, replies []*message
				for range 1 + m.IntN(4) {
					request, reply := m.exchange()
					requests, replies = append(requests, request), append(replies, reply)
				}
				differs := compare2(requests, replies, direct, through, gate.listen, "127.0.0.1")
				mu.Lock()
				streams += len(requests)
				if differs != "" {
					different++
					assert.Fail(t, differs, "worker %d", w)
				}
				enough := different >= 20
				mu.Unlock()
				if enough {
					return
				}
			}
		})
	}
	group.Wait()
	t.Logf("| HTTP/2 | streams with trailers, interim answers, resets | %d |", streams)
	t.Logf("%d connections differ", different)
}

func compare2(requests, replies []*message, direct, through *server2, gate, caller string) string {
	for _, address := range []string{direct.listener.Addr().String(), gate} {
		got, err := call2(address, requests)
		if err != nil {
			return fmt.Sprintf("%s, gate %t: %q", err, address == gate, requests[0].blocks)
		}
		for i := range got {
			if text := replies[i].differs(got[i], ""); text != "" {
				return fmt.Sprintf("the caller's (gate %t) %s", address == gate, text)
			}
		}
	}
	for i := range requests {
		id := valueOf(requests[i].blocks[0], "x-case")
		want, _ := direct.got.LoadAndDelete(id)
		got, ok := through.got.LoadAndDelete(id)
		if !ok {
			return "the server does not receive " + id
		}
		if text := want.(*message).differs(got.(*message), caller); text != "" {
			return "the server's " + text
		}
	}
	return ""
}
