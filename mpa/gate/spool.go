package gate

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// A spool reads the body of a request of HTTP/2 ahead of the server.
type spool struct {
	proxy *Proxy
	from  io.ReadCloser
	grpc  bool // the first message is enough: a stream follows
	await bool // the request waits for its body

	mu      sync.Mutex
	changed sync.Cond
	buffer  []byte
	taken   int // from memory
	err     error
	closed  bool
	whole   bool // the body, or the first message of gRPC, has come
	most    int  // bytes read ahead
	isFull  bool // so many are there
	reply   bool // the answer has begun
	pace    pace
	since   time.Time // of the read under way; zero = none
	signal  chan struct{}
}

func newSpool(p *Proxy, r *http.Request, await bool) *spool {
	s := &spool{
		proxy: p, from: r.Body, pace: p.pace(), signal: make(chan struct{}), most: mostBody,
		grpc:  strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc"),
		await: await && r.Header.Get("Expect") == "",
	}
	s.changed.L = &s.mu
	go s.run()
	return s
}

// run reads until the body ends, and waits while the buffer is full.
func (s *spool) run() {
	chunk := buffers.Get().(*[largeBuffer]byte)
	defer buffers.Put(chunk)
	first := grpcFirst{}
	for {
		s.mu.Lock()
		for len(s.buffer) >= s.most && !s.closed {
			s.full()
			s.changed.Wait()
		}
		if s.closed {
			s.mu.Unlock()
			return
		}
		s.since = time.Now()
		s.mu.Unlock()

		n, err := s.from.Read(chunk[:])

		s.mu.Lock()
		s.pace.waited += time.Since(s.since)
		s.pace.bytes += int64(n)
		s.since = time.Time{}
		if more := len(s.buffer) + n - s.taken; more > 0 && s.proxy.memory.take(more) {
			s.taken += more
		} else if more > 0 {
			s.most = len(chunk) // what is there has to be read first
		}
		s.buffer = append(s.buffer, chunk[:n]...)
		s.err = err
		if s.whole = s.whole || err != nil || s.grpc && first.add(chunk[:n]); s.whole {
			s.full()
		}
		s.changed.Broadcast()
		ended := err != nil || s.closed
		s.mu.Unlock()
		if ended {
			return
		}
	}
}

// full ends the wait before the request goes in.
func (s *spool) full() {
	if !s.isFull {
		s.isFull = true
		close(s.signal)
	}
}

// wait waits until the request may go in.
func (s *spool) wait(ctx context.Context, g *Gate) error {
	if !s.await {
		return nil
	}
	ticks := time.NewTicker(pause / 4)
	defer ticks.Stop()
	seen, still := int64(0), 0
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.signal:
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.err != nil && s.err != io.EOF {
				return s.err
			}
			return nil
		case <-ticks.C:
		}
		bytes, slow := s.progress()
		if slow {
			return errSlow
		}
		if still++; bytes != seen {
			seen, still = bytes, 0
		}
		if still >= 4 && g.Limit() >= 2 { // half of them is one or more
			return nil
		}
	}
}

// progress returns how many bytes have come, and whether they came too slowly.
func (s *spool) progress() (bytes int64, slow bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pace
	if !s.since.IsZero() {
		p.waited += time.Since(s.since)
	}
	left, bounded := p.left()
	return p.bytes, bounded && left <= 0 && !s.whole && !s.reply
}

// watch looks at the pace of a body that comes while the request is inside.
func (s *spool) watch(ctx context.Context, v *visit, slow func()) {
	ticks := time.NewTicker(pause / 4)
	defer ticks.Stop()
	for !s.isWhole() {
		if _, late := s.progress(); late {
			slow()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
	v.whole()
}

func (s *spool) isWhole() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.whole
}

// answered notes that the answer has begun: from then on the body may be one half of a conversation.
func (s *spool) answered() {
	if s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reply = true
	}
}

// Read implements [io.Reader].
func (s *spool) Read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.buffer) == 0 && s.err == nil && !s.closed {
		s.changed.Wait()
	}
	if len(s.buffer) > 0 {
		n := copy(b, s.buffer)
		if s.buffer = s.buffer[n:]; len(s.buffer) == 0 {
			s.proxy.memory.give(s.taken)
			s.taken, s.buffer = 0, nil
		}
		s.changed.Broadcast()
		return n, nil
	}
	if s.err != nil {
		return 0, s.err
	}
	return 0, errClosed
}

var errClosed = errors.New("the body is closed")

// Close implements [io.Closer].
func (s *spool) Close() error {
	s.close()
	return s.from.Close()
}

func (s *spool) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.proxy.memory.give(s.taken)
	s.taken, s.buffer = 0, nil
	s.changed.Broadcast()
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
