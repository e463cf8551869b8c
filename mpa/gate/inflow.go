package gate

import (
	"net"
	"sync"
	"sync/atomic"
)

const (
	smallBuffer = 4 << 10  // that each connection has
	largeBuffer = 32 << 10 // that answers are read into
	mostBody    = 256 << 10
	// mostMemory bounds the bytes that all connections hold beyond their small buffers, and the
	// bodies of HTTP/2 that wait: of the 128Mi that the webhook gives a gate.
	mostMemory = 32 << 20
)

// memory counts the bytes in buffers.
type memory struct{ held atomic.Int64 }

func (m *memory) take(n int) bool {
	if m.held.Add(int64(n)) <= mostMemory {
		return true
	}
	m.held.Add(int64(-n))
	return false
}

func (m *memory) give(n int) { m.held.Add(int64(-n)) }

// An inflow holds bytes that a connection has received and not passed on.
type inflow struct {
	conn   net.Conn
	buffer []byte
	begin  int
	end    int
	base   int     // its size as long as it has not grown
	memory *memory // for its growth
	grown  int
}

func newInflow(c net.Conn, buffer []byte, m *memory) *inflow {
	return &inflow{conn: c, buffer: buffer, base: len(buffer), memory: m}
}

// bytes returns the received bytes. They are valid until the next fill.
func (r *inflow) bytes() []byte { return r.buffer[r.begin:r.end] }

// discard forgets the first n bytes.
func (r *inflow) discard(n int) {
	if r.begin += n; r.begin == r.end {
		r.begin, r.end = 0, 0
	}
}

// room makes room for more and returns false where the buffer is full.
func (r *inflow) room() bool {
	if r.end < len(r.buffer) {
		return true
	}
	if r.begin > 0 {
		r.end = copy(r.buffer, r.bytes())
		r.begin = 0
		return true
	}
	more := len(r.buffer)
	if len(r.buffer) >= mostHead+mostBody || !r.memory.take(more) {
		return false
	}
	r.grown += more
	larger := make([]byte, len(r.buffer)+more)
	copy(larger, r.buffer[:r.end])
	r.buffer = larger
	return true
}

// fill reads once. There has to be room.
func (r *inflow) fill() error {
	n, err := r.conn.Read(r.buffer[r.end:])
	r.end += n
	if n > 0 {
		return nil
	}
	return err
}

// shrink releases the growth of the buffer if the remainder fits.
func (r *inflow) shrink() {
	if r.grown == 0 || r.end-r.begin > r.base {
		return
	}
	small := make([]byte, r.base)
	r.end = copy(small, r.bytes())
	r.begin, r.buffer = 0, small
	r.release()
}

// release gives the memory back at the end of the connection.
func (r *inflow) release() {
	r.memory.give(r.grown)
	r.grown = 0
}

var buffers = sync.Pool{New: func() any { return new([largeBuffer]byte) }}

// park releases the buffer of an idle connection until unpark, if it is empty.
func (r *inflow) park() {
	if len(r.bytes()) > 0 {
		return
	}
	r.release()
	if len(r.buffer) == largeBuffer {
		buffers.Put((*[largeBuffer]byte)(r.buffer))
	}
	r.buffer = nil
}

// unpark returns false if bytes have arrived since the connection became idle.
func (r *inflow) unpark() bool {
	if r.buffer == nil {
		r.buffer = buffers.Get().(*[largeBuffer]byte)[:]
		return true
	}
	return len(r.bytes()) == 0
}
