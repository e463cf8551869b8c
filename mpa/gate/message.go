package gate

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Bounds of one message of HTTP/1.
const (
	mostHead    = 64 << 10 // start line and fields
	mostTrailer = 16 << 10
	mostChunk   = 4 << 10 // a chunk's size with its extensions
)

// A refusal is a message that cannot be passed on, with the status that the caller gets.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

func refuse(status int, format string, args ...any) *refusal {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

var (
	errHeadLarge = refuse(http.StatusRequestHeaderFieldsTooLarge, "the request's head has more than %d bytes", mostHead)
	errChunk     = errors.New("chunked body: no valid chunk")
)

// A head is the start line and the fields of a message as received, with the empty line at
// the end. The offsets are into raw.
type head struct {
	raw []byte
	// Of a request.
	method string
	again  bool // the method is safe and has no body: the request may be sent again
	// Of an answer.
	status int

	old        bool // HTTP/1.0
	close      bool // Connection: close
	keep       bool // Connection: keep-alive
	upgrade    bool // an Upgrade field
	h2c        bool // that offers HTTP/2
	expect     bool // Expect: 100-continue
	chunked    bool
	coded      bool   // a transfer coding other than chunked alone
	length     int64  // -1 = not given
	forwarded  int    // end of the value of the last X-Forwarded-For, 0 = no such field
	host       bool   // X-Forwarded-Host
	proto      bool   // X-Forwarded-Proto
	named      [2]int // where the value of Host begins and ends
	hosts      int
	grpc       bool // the answer of a call of gRPC
	grpcFailed bool // whose Grpc-Status names a fault of the server
	fields     int  // offset of the first field
}

// endOfHead returns the length of a head at the start of b, 0 where it is not complete.
func endOfHead(b []byte) int {
	if i := bytes.Index(b, []byte("\r\n\r\n")); i >= 0 {
		return i + 4
	}
	return 0
}

// bareFeed reports whether b has a line feed without a carriage return, at from or behind it.
func bareFeed(b []byte, from int) bool {
	for at := from; ; at++ {
		n := bytes.IndexByte(b[at:], '\n')
		if n < 0 {
			return false
		}
		if at += n; at == 0 || b[at-1] != '\r' {
			return true
		}
	}
}

// parseRequest reads the head of a request. It refuses everything that two programs may frame
// differently (RFC 9112, sections 2.2, 5 and 6): bare line feeds, folded fields, lengths that
// contradict each other, codings other than chunked.
func parseRequest(raw []byte) (*head, error) {
	bad := func(text string) (*head, error) { return nil, refuse(http.StatusBadRequest, "%s", text) }
	h := &head{raw: raw, length: -1}
	line, _, _ := bytes.Cut(raw, []byte("\r\n"))
	h.fields = len(line) + 2
	method, rest, ok := bytes.Cut(line, []byte(" "))
	target, version, both := bytes.Cut(rest, []byte(" "))
	if !ok || !both || !isToken(method) || len(target) == 0 || bytes.ContainsFunc(target, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
		return bad("the request line is none of HTTP/1")
	}
	switch string(version) {
	case "HTTP/1.1":
	case "HTTP/1.0":
		h.old = true
	default:
		if len(version) == len("HTTP/1.1") && bytes.HasPrefix(version, []byte("HTTP/")) {
			return nil, refuse(http.StatusHTTPVersionNotSupported, "the request line has a version that is not spoken here")
		}
		return bad("the request line is none of HTTP/1")
	}
	h.method = string(method)
	if err := h.parseFields(); err != nil {
		return bad(err.Error())
	}
	switch {
	case h.coded:
		return nil, refuse(http.StatusNotImplemented, "the request has a transfer coding other than chunked")
	case h.chunked && h.length >= 0:
		return bad("the request has both Transfer-Encoding and Content-Length")
	case h.chunked && h.old:
		return bad("a request of the old version has a Transfer-Encoding")
	}
	h.again = h.body() == noBody && (h.method == "GET" || h.method == "HEAD" || h.method == "OPTIONS" || h.method == "TRACE")
	return h, nil
}

// parseAnswer reads the head of an answer.
func parseAnswer(raw []byte) (*head, error) {
	h := &head{raw: raw, length: -1}
	line, _, _ := bytes.Cut(raw, []byte("\r\n"))
	h.fields = len(line) + 2
	if len(line) < len("HTTP/1.1 200") || !bytes.HasPrefix(line, []byte("HTTP/1.")) || line[8] != ' ' || len(line) > 12 && line[12] != ' ' {
		return nil, fmt.Errorf("the answer's first line is %q", line[:min(len(line), 100)])
	}
	h.old = line[7] == '0'
	for _, c := range line[9:12] {
		if c < '0' || c > '9' {
			return nil, fmt.Errorf("the answer's first line is %q", line[:min(len(line), 100)])
		}
		h.status = 10*h.status + int(c-'0')
	}
	if bytes.ContainsAny(line, "\r\n\x00") {
		return nil, errors.New("the answer's first line has a line break")
	}
	if err := h.parseFields(); err != nil {
		return nil, err
	}
	if h.chunked && h.length >= 0 {
		return nil, errors.New("the answer has both Transfer-Encoding and Content-Length")
	}
	return h, nil
}

func (h *head) parseFields() error {
	for at := h.fields; at < len(h.raw)-2; {
		end := bytes.IndexByte(h.raw[at:], '\n')
		line := h.raw[at : at+end+1]
		if !bytes.HasSuffix(line, []byte("\r\n")) || bytes.ContainsFunc(line[:len(line)-2], isControl) {
			return errors.New("a field has a bare line break or another control character")
		}
		name, value, ok := bytes.Cut(line[:len(line)-2], []byte(":"))
		if !ok || !isToken(name) {
			return fmt.Errorf("a line of the head is no field: %.100q", line[:len(line)-2])
		}
		if err := h.field(name, bytes.Trim(value, " \t"), at+len(bytes.TrimRight(line, " \t\r\n"))); err != nil {
			return err
		}
		at += len(line)
	}
	return nil
}

// field reads a field that the gate acts on.
func (h *head) field(name, value []byte, end int) error {
	switch len(name) { // the length alone excludes most fields
	case 4, 6, 7, 10, 11, 12, 14, 15, 16, 17:
	default:
		return nil
	}
	switch {
	case is(name, "connection"):
		h.close = h.close || hasToken(value, "close")
		h.keep = h.keep || hasToken(value, "keep-alive")
	case is(name, "upgrade"):
		h.upgrade = true
		h.h2c = h.h2c || hasToken(value, "h2c")
	case is(name, "expect"):
		h.expect = h.expect || hasToken(value, "100-continue")
	case is(name, "transfer-encoding"):
		h.coded = h.coded || h.chunked || !is(value, "chunked")
		last := value[bytes.LastIndexByte(value, ',')+1:]
		h.chunked = is(bytes.Trim(last, " \t"), "chunked")
	case is(name, "content-length"):
		n, ok := digits(value)
		if !ok || h.length >= 0 && h.length != n {
			return fmt.Errorf("Content-Length: %.100q", value)
		}
		h.length = n
	case is(name, "x-forwarded-for"):
		h.forwarded = end
	case is(name, "host"):
		if h.hosts++; h.hosts > 1 {
			return errors.New("the request has more than one Host")
		}
		h.named = [2]int{end - len(value), end}
	case is(name, "x-forwarded-host"):
		h.host = true
	case is(name, "x-forwarded-proto"):
		h.proto = true
	case is(name, "content-type"):
		h.grpc = len(value) >= len(grpcType) && is(value[:len(grpcType)], grpcType)
	case is(name, "grpc-status"):
		h.grpcFailed = serverFault(string(value))
	}
	return nil
}

func isControl(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }

// digits reads a length: digits alone, below 10¹⁸.
func digits(value []byte) (n int64, ok bool) {
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, len(value) > 0 && len(value) <= 18
}

func is(b []byte, lower string) bool {
	return len(b) == len(lower) && strings.EqualFold(string(b), lower)
}

// hasToken reports whether a list has an element, whatever its case.
func hasToken(list []byte, lower string) bool {
	for element := range bytes.SplitSeq(list, []byte(",")) {
		if is(bytes.Trim(element, " \t"), lower) {
			return true
		}
	}
	return false
}

// isToken reports whether b is a token of RFC 9110, section 5.6.2.
func isToken(b []byte) bool {
	for _, c := range b {
		if !tokens[c] {
			return false
		}
	}
	return len(b) > 0
}

var tokens = func() (set [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		set[c] = true
	}
	return set
}()

// body returns the framing of a request's body.
func (h *head) body() framing {
	switch {
	case h.chunked:
		return byChunks
	case h.length > 0:
		return byLength
	}
	return noBody
}

// answerTo returns the framing of the answer's body to a request of that method (RFC 9112,
// section 6.3).
func (h *head) answerTo(method string) framing {
	switch {
	case method == "HEAD", h.status < 200, h.status == http.StatusNoContent, h.status == http.StatusNotModified:
		return noBody
	case h.coded && !h.chunked:
		return untilClose
	case h.chunked:
		return byChunks
	case h.length == 0:
		return noBody
	case h.length > 0:
		return byLength
	}
	return untilClose
}

// persists reports whether the connection can carry another message after this one.
func (h *head) persists() bool { return !h.close && (!h.old || h.keep) }

// grpcType begins the content types of gRPC.
const grpcType = "application/grpc"

// serverFault reports whether a status of gRPC is a fault of the server: UNKNOWN,
// DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, INTERNAL, UNAVAILABLE and DATA_LOSS, as for
// interceptors (mpa/gate/rpc).
func serverFault(status string) bool {
	switch status {
	case "2", "4", "8", "13", "14", "15":
		return true
	}
	return false
}
