package gate

import (
	"bytes"
	"strings"
)

// Kinds of body.
type framing int

const (
	noBody framing = iota
	byLength
	byChunks
	untilClose
)

// A scanner finds the end of a body in the bytes of its connection and leaves them as they are.
type scanner struct {
	framing framing
	left    int64 // of the body, or of the chunk
	state   chunkState
	count   int  // bytes of the line, or of the trailer section
	size    bool // the chunk's size has a digit
	line    []byte
	failed  bool // the trailer Grpc-Status names a fault of the server
}

type chunkState int

const (
	chunkSize chunkState = iota
	chunkSpace
	chunkExtension
	chunkSizeEnd // after its CR
	chunkData
	chunkDataCR
	chunkDataLF
	trailerLine
	trailerEnd // after a CR
	chunksEnded
)

func newScanner(f framing, length int64) *scanner {
	return &scanner{framing: f, left: max(length, 0)}
}

// ended reports whether the body is complete.
func (s *scanner) ended() bool {
	switch s.framing {
	case byLength:
		return s.left == 0
	case byChunks:
		return s.state == chunksEnded
	default:
		return s.framing == noBody
	}
}

// scan returns how many of the bytes belong to the body.
func (s *scanner) scan(b []byte) (n int, err error) {
	switch s.framing {
	case noBody:
		return 0, nil
	case untilClose:
		return len(b), nil
	case byLength:
		n = int(min(int64(len(b)), s.left))
		s.left -= int64(n)
		return n, nil
	case byChunks:
	}
	for n < len(b) && s.state != chunksEnded {
		if s.state == chunkData {
			part := int(min(int64(len(b)-n), s.left))
			n += part
			if s.left -= int64(part); s.left == 0 {
				s.state = chunkDataCR
			}
			continue
		}
		if err := s.step(b[n]); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// step takes a byte outside a chunk's data.
func (s *scanner) step(c byte) error {
	s.count++
	switch s.state {
	case chunkSize, chunkSpace, chunkExtension:
		return s.stepSize(c)
	case chunkSizeEnd:
		if c != '\n' {
			return errChunk
		}
		s.count, s.size = 0, false
		s.state = chunkData
		if s.left == 0 {
			s.state = trailerLine
		}
	case chunkDataCR:
		if c != '\r' {
			return errChunk
		}
		s.state = chunkDataLF
	case chunkDataLF:
		if c != '\n' {
			return errChunk
		}
		s.state, s.count = chunkSize, 0
	case trailerLine:
		switch {
		case c == '\r':
			s.state = trailerEnd
		case c == '\n', c == 0, s.count > mostTrailer:
			return errChunk
		default:
			s.line = append(s.line, c)
		}
	case trailerEnd:
		if c != '\n' {
			return errChunk
		}
		return s.trailer()
	case chunkData, chunksEnded: // scan takes them
	}
	return nil
}

// stepSize takes a byte of a chunk's size: digits, spaces, extensions after a semicolon.
func (s *scanner) stepSize(c byte) error {
	digit := strings.IndexByte("0123456789abcdef", c|0x20)
	if c < '0' || c > '9' && c < 'A' {
		digit = -1
	}
	switch {
	case s.count > mostChunk, c == '\n', c == 0:
		return errChunk
	case c == '\r':
		if !s.size {
			return errChunk
		}
		s.state = chunkSizeEnd
	case s.state == chunkExtension:
	case s.state == chunkSize && digit >= 0:
		if s.left > 1<<55 {
			return errChunk
		}
		s.left, s.size = s.left<<4|int64(digit), true
	case !s.size:
		return errChunk
	case c == ' ', c == '\t':
		s.state = chunkSpace
	case c == ';':
		s.state = chunkExtension
	default:
		return errChunk
	}
	return nil
}

// trailer takes a line of the trailer section; the empty one is its end.
func (s *scanner) trailer() error {
	if len(s.line) == 0 {
		s.state = chunksEnded
		return nil
	}
	name, value, ok := bytes.Cut(s.line, []byte(":"))
	if !ok || !isToken(name) {
		return errChunk
	}
	if is(name, "grpc-status") {
		s.failed = serverFault(string(bytes.Trim(value, " \t")))
	}
	s.line, s.state = s.line[:0], trailerLine
	return nil
}
