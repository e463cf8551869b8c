package gate

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Heads that two programs may read differently are refused.
func TestParseRequest(t *testing.T) {
	for _, c := range []struct {
		text string
		want int
	}{
		{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 0},
		{"GET / HTTP/1.0\r\n\r\n", 0},
		{"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 0},
		{"M-SEARCH http://a:1/b?c=%zz;d HTTP/1.1\r\nhOST:a\r\nX:\r\nY: \t z \t\r\n\r\n", 0},
		{"POST / HTTP/1.1\r\nContent-Length: 5\r\ncontent-length:5\r\n\r\n", 0},
		{"POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n", 0},
		{"GET / HTTP/1.1\nHost: a\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: a\n\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: a\x00\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nno field\r\n\r\n", 400},
		{"GET  / HTTP/1.1\r\n\r\n", 400},
		{"GET /a b HTTP/1.1\r\n\r\n", 400},
		{"G(T / HTTP/1.1\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400},
		{"GET /\r\n\r\n", 400},
		{"GET / HTTP/2.0\r\n\r\n", 505},
		{"GET / http/1.1\r\n\r\n", 400},
		{"POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 400},
		{"POST / HTTP/1.1\r\nContent-Length: +5\r\n\r\n", 400},
		{"POST / HTTP/1.1\r\nContent-Length: 5, 5\r\n\r\n", 400},
		{"POST / HTTP/1.1\r\nContent-Length:\r\n\r\n", 400},
		{"POST / HTTP/1.1\r\nContent-Length: 9223372036854775808\r\n\r\n", 400},
		{"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		{"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		{"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501},
		{"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n", 501},
		{"POST / HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n", 501},
		{"POST / HTTP/1.1\r\nTransfer-Encoding: chunked, chunked\r\n\r\n", 501},
		{"POST / HTTP/1.1\r\nTransfer-Encoding: \"chunked\"\r\n\r\n", 501},
		{"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding:\r\n\r\n", 501},
		{"POST / HTTP/1.1\r\nTransfer-Encoding: \x0bchunked\r\n\r\n", 400},
		{"POST / HTTP/1.1\r\nTransfer\xc2\xa0-Encoding: chunked\r\nHost: something\r\n\r\n", 400},
	} {
		_, err := parseRequest([]byte(c.text))
		status := 0
		if r := (*refusal)(nil); errors.As(err, &r) {
			status = r.status
		} else {
			require.NoError(t, err)
		}
		assert.Equal(t, c.want, status, "%q: %v", c.text, err)
	}
}

// A body ends at the same byte however its bytes are cut, and a bad one is an error in each way.
func TestScanner(t *testing.T) {
	for _, c := range []struct {
		body string
		ends int // -1 = an error, 0 = not yet
	}{
		{"0\r\n\r\nGET", 5},
		{"3\r\nabc\r\n0\r\n\r\n", 13},
		{"0003;a=\"b;c\" ;d\r\nabc\r\n00\r\nX: y\r\nGrpc-Status: 13\r\n\r\n0", 51},
		{"3  \r\nabc\r\n0\r\n\r\n", 15},
		{"A\r\n0123456789\r\n0\r\n\r\n", 20},
		{"3\r\nabc\r\n0\r\n", 0},
		{"3\r\nab", 0},
		{"", 0},
		{"\r\n", -1},
		{";a\r\n", -1},
		{"g\r\n", -1},
		{"-1\r\n", -1},
		{"0x3\r\n", -1},
		{"3 3\r\n", -1},
		{"3\nabc\n", -1},
		{"3\r\nabcd\r\n", -1},
		{"3\r\nabc\n0\r\n", -1},
		{"3;a\n\r\n", -1},
		{"fffffffffffffffff\r\n", -1},
		{"0\r\nX\r\n\r\n", -1},
		{"0\r\nX : y\r\n\r\n", -1},
		{"0\r\nX: y\n\r\n", -1},
		{"1;" + strings.Repeat("a", mostChunk) + "\r\n", -1},
		{"0\r\nX: " + strings.Repeat("a", mostTrailer) + "\r\n\r\n", -1},
	} {
		for _, step := range []int{1, 2, 3, 7, len(c.body) + 1} {
			s, at, ends := newScanner(byChunks, -1), 0, 0
			for part := range slices.Chunk([]byte(c.body), step) {
				n, err := s.scan(part)
				at += n
				if err != nil {
					ends = -1
				} else if s.ended() {
					ends = at
				}
				if ends != 0 {
					break
				}
			}
			require.Equal(t, c.ends, ends, "%.60q by %d", c.body, step)
			assert.Equal(t, strings.Contains(c.body, "Grpc-Status: 13"), s.failed)
		}
	}
}

func TestParseAnswer(t *testing.T) {
	for text, want := range map[string]framing{
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n":                          byLength,
		"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n":                             noBody,
		"HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n":                   byChunks,
		"HTTP/1.1 200 Fine, thanks\r\nTransfer-Encoding: gzip, chunked\r\n\r\n": byChunks,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n":                    untilClose,
		"HTTP/1.0 200 OK\r\n\r\n":                                               untilClose,
		"HTTP/1.1 204 None\r\nContent-Length: 3\r\n\r\n":                        noBody,
		"HTTP/1.1 304 Same\r\nContent-Length: 3\r\n\r\n":                        noBody,
	} {
		a, err := parseAnswer([]byte(text))
		require.NoError(t, err, text)
		assert.Equal(t, want, a.answerTo(http.MethodGet), text)
		assert.Equal(t, noBody, a.answerTo(http.MethodHead))
	}
	for _, text := range []string{
		"HTTP/2.0 200 OK\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 2000\r\n\r\n", "HTTP/1.1 OK\r\n\r\n", "ICY 200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 O\x00K\r\n\r\n",
	} {
		_, err := parseAnswer([]byte(text))
		require.Error(t, err, text)
	}
}

// FuzzFraming: a request that is passed on ends where net/http has it end.
func FuzzFraming(f *testing.F) {
	for _, seed := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n0\r\nA: b\r\n\r\nrest",
		"POST / HTTP/1.1\r\nHost: a\r\nConnection: upgrade, close\r\nUpgrade: h2c\r\nX-Forwarded-For: b \r\nContent-Length: 0\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		n := endOfHead(text)
		if n == 0 || n > mostHead {
			return
		}
		h, err := parseRequest(text[:n])
		if err != nil {
			return
		}
		p := &Proxy{options: DefaultProxyOptions()}
		out, err := parseRequest(p.outgoing(nil, h, "10.0.0.1"))
		require.NoError(t, err, "the server gets no head of another kind")
		require.Equal(t, []any{h.method, h.body(), h.length, h.close, h.expect}, []any{out.method, out.body(), out.length, out.close, out.expect})
		body := newScanner(h.body(), h.length)
		m, err := body.scan(text[n:])
		if err != nil || !body.ended() {
			return
		}
		reader := bufio.NewReaderSize(bytes.NewReader(text), len(text)+16)
		r, err := http.ReadRequest(reader)
		if err != nil || r.Method == http.MethodConnect {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		rest, err := io.ReadAll(reader)
		require.NoError(t, err)
		require.Equal(t, string(text[n+m:]), string(rest))
	})
}
