package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// malformed requests are refused: a server behind the gate may read their end elsewhere.
var malformed = map[string]string{
	"two lengths":                  "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
	"list of lengths":              "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 4\r\n\r\nabcd",
	"length with a sign":           "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc",
	"negative length":              "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
	"length in hex":                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x3\r\n\r\nabc",
	"two numbers":                  "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3 3\r\n\r\nabc",
	"empty length":                 "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n",
	"huge length":                  "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\nabc",
	"length with _":                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1_0\r\n\r\n0123456789",
	"length and chunks":            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"chunks and length":            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n",
	"chunks in HTTP/1.0":           "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"gzip":                         "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n0\r\n\r\n",
	"chunks, then gzip":            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
	"gzip, then chunks":            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
	"identity":                     "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
	"xchunked":                     "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
	"chunked twice":                "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
	"chunked in two lines":         "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
	"chunked after a control":      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
	"chunked with a parameter":     "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n",
	"empty encoding":               "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n0\r\n\r\n",
	"space before a colon":         "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
	"tab before a colon":           "POST / HTTP/1.1\r\nHost: a\r\nContent-Length\t: 3\r\n\r\nabc",
	"bare LF in the request line":  "GET / HTTP/1.1\nHost: a\r\n\r\n",
	"bare LF after a field":        "GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
	"bare LF at the end":           "GET / HTTP/1.1\r\nHost: a\r\n\n",
	"bare CR in a value":           "GET / HTTP/1.1\r\nHost: a\r\nX: y\rContent-Length: 9\r\n\r\n",
	"NUL in a value":               "GET / HTTP/1.1\r\nHost: a\r\nX: y\x00z\r\n\r\n",
	"control in a value":           "GET / HTTP/1.1\r\nHost: a\r\nX: y\x01z\r\n\r\n",
	"line that goes on":            "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n",
	"first line that goes on":      "GET / HTTP/1.1\r\n Host: a\r\nHost: a\r\n\r\n",
	"no colon":                     "GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n",
	"empty name":                   "GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n",
	"space in a name":              "GET / HTTP/1.1\r\nHost: a\r\na b: c\r\n\r\n",
	"no ASCII in a name":           "GET / HTTP/1.1\r\nHost: a\r\na\xe9: c\r\n\r\n",
	"two hosts":                    "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
	"no version":                   "GET /\r\nHost: a\r\n\r\n",
	"four words":                   "GET / x HTTP/1.1\r\nHost: a\r\n\r\n",
	"two spaces":                   "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
	"tab in the request line":      "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n",
	"no method":                    " / HTTP/1.1\r\nHost: a\r\n\r\n",
	"bad method":                   "G@T / HTTP/1.1\r\nHost: a\r\n\r\n",
	"NUL in the target":            "GET /\x00 HTTP/1.1\r\nHost: a\r\n\r\n",
	"control in the target":        "GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n",
	"version in lower case":        "GET / http/1.1\r\nHost: a\r\n\r\n",
	"version of another time":      "GET / HTTP/3.0\r\nHost: a\r\n\r\n",
	"version with a letter":        "GET / HTTP/1.x\r\nHost: a\r\n\r\n",
	"huge field":                   "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("y", 2<<20) + "\r\n\r\n",
	"huge target":                  "GET /" + strings.Repeat("y", 2<<20) + " HTTP/1.1\r\nHost: a\r\n\r\n",
	"many fields":                  "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: y\r\n", 400_000) + "\r\n",
	"chunk size of no hex":         "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
	"negative chunk":               "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nabc\r\n0\r\n\r\n",
	"chunk size with 0x":           "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n",
	"chunk size after a space":     "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n 3\r\nabc\r\n0\r\n\r\n",
	"empty chunk size":             "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\r\nabc\r\n0\r\n\r\n",
	"chunk size that overflows":    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000003\r\nabc\r\n0\r\n\r\n",
	"bare LF after a chunk size":   "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n",
	"bare LF after a chunk":        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\n0\r\n\r\n",
	"chunk longer than its size":   "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
	"bare LF in an extension":      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;a\nabc\r\n0\r\n\r\n",
	"NUL in an extension":          "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;a=\x00\r\nabc\r\n0\r\n\r\n",
	"bare LF after a trailer":      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\n\r\n",
	"trailer without a colon":      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX\r\n\r\n",
	"space before a colon at end":  "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX : y\r\n\r\n",
	"huge chunk extension":         "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;" + strings.Repeat("y", 2<<20) + "\r\nabc\r\n0\r\n\r\n",
	"huge trailer":                 "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: " + strings.Repeat("y", 2<<20) + "\r\n\r\n",
	"chunk extension without a ;":  "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3 a\r\nabc\r\n0\r\n\r\n",
	"preface of HTTP/2 that ends":  "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
	"length in a line that goes":   "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n 3\r\n\r\nabc",
	"encoding in a line that goes": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
}

// TestMalformed: no server receives a whole request out of a malformed one, nor the next on
// that connection; its caller is told so and the connection ends.
func TestMalformed(t *testing.T) {
	ok := &answer{final: []byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")}
	server := newRecorder(t, func([]byte) *answer { return ok })
	gate := startGate(t, server.address())
	for name, raw := range malformed {
		t.Run(name, func(t *testing.T) {
			server.reset()
			next := "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
			got, err := converse(gate.listen, []step{{segments: [][]byte{[]byte(raw), []byte(next)}}}, 5*time.Second)
			if err != nil { // a reset may follow an answer, never a wait
				assert.NotContains(t, err.Error(), "timeout", "the connection stays open")
			}
			if len(got) > 0 || err == nil {
				assert.Regexp(t, `^HTTP/1\.[01] (400|413|414|431|501|505) `, string(got))
				assert.Equal(t, 1, bytes.Count(got, []byte("HTTP/1.")), "answers")
			}
			for _, one := range server.reset() {
				assert.NotContains(t, string(one.head), "smuggled")
				assert.True(t, one.ended(), "the server's connection stays open")
				assert.False(t, one.whole, "the server receives %q", one.head)
			}
		})
	}
	code, text := get("http://" + gate.listen + "/")
	assert.Equal(t, []any{200, "ok"}, []any{code, text}, "the gate goes on")
	assert.Eventually(t, func() bool { return gate.value("sigma_gate_inside") == 0 }, 2*time.Second, 10*time.Millisecond)
}
