package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
)

// A conversation is one connection: the steps of its caller and the answers to its requests.
type conversation struct {
	kind  string
	steps []step
	ids   []string
	want  []byte // what the caller receives
	cut   bool   // the answer ends the request before its body: bodies are not compared
}

// A maker draws conversations.
type maker struct {
	*rand.Rand
	first, next int
	answers     *sync.Map // of *answer by number
}

func oneOf[T any](m *maker, of ...T) T { return of[m.IntN(len(of))] }

func (m *maker) chance(p float64) bool { return m.Float64() < p }

// cutUp splits bytes into segments as a slow network does.
func (m *maker) cutUp(all []byte) [][]byte {
	if len(all) < 2 || m.chance(.7) {
		return [][]byte{all}
	}
	var segments [][]byte
	for len(all) > 1 && len(segments) < 4 {
		n := 1 + m.IntN(min(len(all)-1, oneOf(m, 1, 40, 400)))
		segments, all = append(segments, all[:n]), all[n:]
	}
	return append(segments, all)
}

func (m *maker) target() string {
	return oneOf(m, "/", "/a", "/a;b=1;c", "/?sku=A;B;C", "/?a=1;b=2&c=3", "/?q=100%&x=1", "/%zz", "/%", "/%2F%2f", "//a//b/", "/a/../b/./c", "/?",
		"/a?b?c", "/??", "/caf\xc3\xa9?x=\xff", "/\"<>\\^`{|}", "/a%00b", "/a%20b+c", "/a:b@c", "/*", "/'()!$,", "http://other.example:81/x?y", "http://a",
		"/"+strings.Repeat("long/", m.IntN(400)), "/[::1]", "/?a=%E0%A4%A", "/x#y")
}

func (m *maker) value() string {
	return oneOf(m, "a", "", "a, b,c", "\"q\\\"r\"", "caf\xc3\xa9", "\xe9", "a\tb", "a  b", ",,", ";", "x=1; y=2", strings.Repeat("v", m.IntN(3000)), "(comment)", "a:b:c")
}

// field writes a header field with the space that senders use.
func (m *maker) field(name, value string) string {
	name = oneOf(m, name, name, strings.ToLower(name), strings.ToUpper(name))
	return name + ":" + oneOf(m, " ", " ", " ", "", "\t", "  ") + value + oneOf(m, "", "", "", " ", "\t ") + "\r\n"
}

// extras are fields that change nothing about where the request or the answer ends.
func (m *maker) extras() []string {
	fields := []func() string{
		func() string {
			return m.field("X-Forwarded-For", oneOf(m, "10.0.0.1", "10.0.0.1, 10.0.0.2", "unknown", "2001:db8::1", ""))
		},
		func() string { return m.field("X-Forwarded-Host", "front.example") },
		func() string { return m.field("X-Forwarded-Proto", oneOf(m, "https", "http")) },
		func() string { return m.field("X-Forwarded-Port", "443") },
		func() string { return m.field("Forwarded", `for="[2001:db8::1]:4711";proto=https, for=10.1.1.1`) },
		func() string { return m.field("Via", "1.0 fred, 1.1 p.example") },
		func() string { return m.field("X-Real-IP", "10.0.0.9") },
		func() string { return m.field("Cookie", m.value()) },
		func() string { return m.field("Accept", oneOf(m, "*/*", "text/html;q=.5, */*;q=.1")) },
		func() string { return m.field("Accept-Encoding", oneOf(m, "gzip", "identity", "br;q=1.0, *;q=0", "")) },
		func() string { return m.field("User-Agent", m.value()) },
		func() string { return m.field("TE", oneOf(m, "trailers", "gzip;q=0.5", "trailers, deflate;q=0.5")) },
		func() string { return m.field("Keep-Alive", "timeout=5, max=100") },
		func() string { return m.field("Proxy-Connection", "keep-alive") },
		func() string { return m.field("Proxy-Authorization", "Basic YTpi") },
		func() string { return m.field("Authorization", "Bearer x.y.z") },
		func() string { return m.field("Upgrade-Insecure-Requests", "1") },
		func() string {
			return m.field("Connection", oneOf(m, "keep-alive", "Keep-Alive", "foo, keep-alive", "TE", "foo"))
		},
		func() string { return m.field("Foo", m.value()) },
		func() string { return m.field("Range", "bytes=0-9,20-") },
		func() string { return m.field("If-None-Match", `W/"a", "b"`) },
		func() string { return m.field("Max-Forwards", "0") },
		func() string { return m.field("Priority", "u=1, i") },
		func() string {
			return m.field("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		},
		func() string { return m.field("!#$%&'*+.^_`|~1x", m.value()) },
		func() string { return m.field("X_under_score", m.value()) },
	}
	var lines []string
	for range m.IntN(8) {
		lines = append(lines, fields[m.IntN(len(fields))]())
	}
	return lines
}

// head writes a request's head with the given fields among others in any order.
func (m *maker) head(method, target, version string, fields ...string) (id string, head []byte) {
	id = fmt.Sprint(m.first + m.next)
	m.next++
	lines := append(m.extras(), fields...)
	lines = append(lines, m.field("X-Case", id))
	if version == "HTTP/1.1" || m.chance(.5) {
		lines = append(lines, m.field("Host", oneOf(m, "a.example", "a.example:8080", "127.0.0.1", "[::1]:80", "A.Example.", "under_score", "")))
	}
	m.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	return id, []byte(method + " " + target + " " + version + "\r\n" + strings.Join(lines, "") + "\r\n")
}

func (m *maker) method() string {
	return oneOf(m, "GET", "GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND", "M-SEARCH", "get", "X!#$%&'*+.^_`|~9", "TRACE", "PRI", "QUERY")
}

func (m *maker) bytes(most int) []byte {
	b := make([]byte, m.IntN(most+1))
	for i := range b {
		b[i] = byte(m.IntN(256))
	}
	return b
}

// chunks writes a body in chunks, with extensions and trailers in all their forms.
func (m *maker) chunks(trailers bool) []byte {
	var b bytes.Buffer
	for range m.IntN(5) {
		data := append(m.bytes(oneOf(m, 3, 300, 5000)), 'x')
		fmt.Fprintf(&b, "%s%s\r\n%s\r\n", oneOf(m, fmt.Sprintf("%x", len(data)), fmt.Sprintf("%X", len(data)), fmt.Sprintf("000%x", len(data))),
			oneOf(m, "", "", ";a", ";a=b", `;a="q;r"; c`), data)
	}
	b.WriteString(oneOf(m, "0", "0", "000", "0;last=1") + "\r\n")
	if trailers {
		for range 1 + m.IntN(3) {
			b.WriteString(m.field(oneOf(m, "X-Sum", "grpc-status", "Server-Timing", "x-sum"), m.value()))
		}
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

// body draws a body and its fields.
func (m *maker) body() (fields []string, body []byte) {
	switch m.IntN(5) {
	case 0, 1:
		return nil, nil
	case 2:
		body = m.bytes(oneOf(m, 0, 10, 2000, 70000))
		return []string{m.field("Content-Length", oneOf(m, "", "", "00")+fmt.Sprint(len(body)))}, body
	case 3:
		return []string{m.field("Transfer-Encoding", oneOf(m, "chunked", "chunked", "Chunked"))}, m.chunks(false)
	}
	fields = []string{m.field("Transfer-Encoding", "chunked")}
	if m.chance(.5) {
		fields = append(fields, m.field("Trailer", "X-Sum, grpc-status"))
	}
	return fields, m.chunks(true)
}

// interim draws answers before the final one.
func (m *maker) interim() []byte {
	var b []byte
	for range 1 + m.IntN(3) {
		b = append(b, oneOf(m, "HTTP/1.1 102 Processing\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\nlink: </b>\r\n\r\n", "HTTP/1.1 100 \r\nX-a: \r\n\r\n", "HTTP/1.1 199 Odd\r\n\r\n")...)
	}
	return b
}

// answer draws a final answer; where it closes, its end may be that of the connection.
func (m *maker) answer(method, version string, closes bool) *answer {
	status := oneOf(m, "200 OK", "200 OK", "200 ", "200", "201 Created at last", "206 Partial Content", "299 caf\xe9", "302 Found", "404 not  found", "418 I'm a teapot", "429 Too Many", "499 X", "500 Oops", "503 Busy", "599 Y", "204 No Content", "304 Not Modified")
	var lines []string
	for range m.IntN(6) {
		lines = append(lines, m.field(oneOf(m, "Set-Cookie", "Server", "Date", "X-B3", "vary", "WWW-Authenticate", "Warning", "Content-Type", "Keep-Alive", "Foo", "Alt-Svc", "Via", "Retry-After"), m.value()))
	}
	var body []byte
	bare := strings.HasPrefix(status, "204") || strings.HasPrefix(status, "304")
	switch form := m.IntN(4); {
	case closes && form == 0 && !bare && method != "HEAD": // to the end of the connection
		body = m.bytes(3000)
	case form < 2 && version == "HTTP/1.1" && !strings.HasPrefix(status, "204"):
		lines = append(lines, m.field("Transfer-Encoding", "chunked"))
		body = m.chunks(m.chance(.5))
	case !strings.HasPrefix(status, "204"):
		body = m.bytes(oneOf(m, 0, 20, 3000, 90000))
		lines = append(lines, m.field("Content-Length", fmt.Sprint(len(body))))
	}
	switch {
	case closes && version == "HTTP/1.1":
		lines = append(lines, m.field("Connection", oneOf(m, "close", "Close", "foo, close")))
	case !closes && version == "HTTP/1.0":
		lines = append(lines, m.field("Connection", "keep-alive"))
	}
	if bare || method == "HEAD" {
		body = nil
	}
	m.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	return &answer{final: append([]byte(version+" "+status+"\r\n"+strings.Join(lines, "")+"\r\n"), body...), closes: closes}
}

// conversation draws one of all kinds.
func (m *maker) conversation() *conversation {
	kinds := []func() *conversation{m.plain, m.plain, m.plain, m.plain, m.old, m.expect, m.expect, m.early, m.late, m.upgrade, m.refused}
	return kinds[m.IntN(len(kinds))]()
}

func (c *conversation) add(id string, sent [][]byte, a *answer) {
	received := slices.Concat(a.interim, a.final)
	c.ids = append(c.ids, id)
	c.want = append(c.want, received...)
	c.steps = append(c.steps, step{segments: sent, expect: len(received)})
}

// plain requests follow each other on a connection, or are all sent before the first answer.
func (m *maker) plain() *conversation {
	c := &conversation{kind: "one after another"}
	n := 1 + m.IntN(5)
	for i := range n {
		method, target := m.method(), m.target()
		if m.chance(.05) {
			method, target = "OPTIONS", "*"
		}
		fields, body := m.body()
		if m.chance(.1) {
			method, fields, body = "HEAD", nil, nil
		}
		closes := i == n-1 && m.chance(.4)
		if closes && m.chance(.5) {
			fields = append(fields, m.field("Connection", "close"))
		}
		id, head := m.head(method, target, "HTTP/1.1", fields...)
		a := m.answer(method, "HTTP/1.1", closes)
		if m.chance(.15) {
			a.interim = m.interim()
		}
		m.answers.Store(id, a)
		c.add(id, m.cutUp(append(head, body...)), a)
	}
	if n > 1 && m.chance(.3) {
		c.kind = "pipelined"
		var all step
		for _, s := range c.steps {
			all.segments = append(all.segments, s.segments...)
			all.expect += s.expect
		}
		c.steps = []step{all}
		if m.chance(.5) {
			c.steps[0].segments = m.cutUp(slices.Concat(all.segments...))
		}
	}
	return c
}

// old requests are of HTTP/1.0, whose connections end unless both sides keep them, or have answers of it.
func (m *maker) old() *conversation {
	c := &conversation{kind: "HTTP/1.0"}
	version, answered := "HTTP/1.0", oneOf(m, "HTTP/1.0", "HTTP/1.1")
	if m.chance(.3) {
		version, answered = "HTTP/1.1", "HTTP/1.0"
	}
	kept := m.IntN(3)
	for i := range kept + 1 {
		var fields []string
		var body []byte
		if m.chance(.5) {
			body = m.bytes(500)
			fields = append(fields, m.field("Content-Length", fmt.Sprint(len(body))))
		}
		if i < kept && version == "HTTP/1.0" {
			fields = append(fields, m.field("Connection", "keep-alive"))
		}
		method := oneOf(m, "GET", "POST", "HEAD")
		id, head := m.head(method, m.target(), version, fields...)
		if i == kept && version == "HTTP/1.0" { // drawn fields must not keep the connection
			head = bytes.Replace(head, []byte("\r\n\r\n"), []byte("\r\nConnection: close\r\n\r\n"), 1)
		}
		a := m.answer(method, "HTTP/1.0", i == kept)
		if answered == "HTTP/1.1" {
			a.final = bytes.Replace(a.final, []byte("HTTP/1.0"), []byte("HTTP/1.1"), 1)
			if a.closes {
				a.final = bytes.Replace(a.final, []byte("\r\n\r\n"), []byte("\r\nConnection: close\r\n\r\n"), 1)
			}
		}
		m.answers.Store(id, a)
		c.add(id, m.cutUp(append(head, body...)), a)
	}
	return c
}

// expect asks before it sends its body. The server says so, says nothing, or refuses.
func (m *maker) expect() *conversation {
	c := &conversation{kind: "Expect: 100-continue"}
	fields, body := m.body()
	if len(fields) == 0 {
		body = []byte("body")
		fields = []string{m.field("Content-Length", "4")}
	}
	id, head := m.head("POST", m.target(), "HTTP/1.1", append(fields, m.field("Expect", oneOf(m, "100-continue", "100-Continue")))...)
	switch m.IntN(3) {
	case 0: // the body is sent though the server says nothing
		a := m.answer("POST", "HTTP/1.1", false)
		m.answers.Store(id, a)
		c.add(id, append(m.cutUp(head), body), a)
	case 1:
		a := m.answer("POST", "HTTP/1.1", m.chance(.3))
		a.interim = []byte(oneOf(m, "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 100 go on\r\nx: y\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n"))
		m.answers.Store(id, a)
		c.ids, c.want = []string{id}, slices.Concat(a.interim, a.final)
		c.steps = []step{{m.cutUp(head), len(a.interim)}, {m.cutUp(body), len(a.final)}}
	case 2:
		a := &answer{final: []byte(oneOf(m, "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno", "HTTP/1.1 401 who\r\nconnection: close\r\n\r\nno")), early: true, closes: true}
		m.answers.Store(id, a)
		c.cut = true
		c.add(id, m.cutUp(head), a)
	}
	return c
}

// early answers end a request whose body is under way.
func (m *maker) early() *conversation {
	c := &conversation{kind: "answered before the body, closed", cut: true}
	id, head := m.head("POST", m.target(), "HTTP/1.1", m.field("Content-Length", "1000000"))
	a := &answer{final: []byte(oneOf(m, "HTTP/1.1 413 Too large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno", "HTTP/1.1 413 Too large\r\nConnection: close\r\n\r\nto the end")), early: true, closes: true}
	m.answers.Store(id, a)
	c.add(id, m.cutUp(append(head, m.bytes(2000)...)), a)
	return c
}

// late bodies are sent after the answer, on a connection that is used again.
func (m *maker) late() *conversation {
	c := &conversation{kind: "answered before the body, kept"}
	body := append(m.bytes(2000), 'x')
	id, head := m.head("POST", m.target(), "HTTP/1.1", m.field("Content-Length", fmt.Sprint(len(body))))
	a := &answer{final: []byte("HTTP/1.1 200 soon\r\nContent-Length: 5\r\n\r\nearly"), early: true}
	m.answers.Store(id, a)
	part := m.IntN(len(body))
	c.add(id, m.cutUp(append(head, body[:part]...)), a)
	next, head := m.head("GET", m.target(), "HTTP/1.1")
	b := m.answer("GET", "HTTP/1.1", false)
	m.answers.Store(next, b)
	c.add(next, [][]byte{body[part:], head}, b)
	return c
}

// upgrade goes on with bytes both ways; the caller ends its side first and still gets a farewell.
func (m *maker) upgrade() *conversation {
	c := &conversation{kind: "upgraded"}
	id, head := m.head("GET", m.target(), "HTTP/1.1", m.field("Connection", oneOf(m, "Upgrade", "upgrade, keep-alive", "keep-alive, Upgrade")),
		m.field("Upgrade", oneOf(m, "websocket", "WebSocket", "echo/1, other", "SPDY/3.1")), m.field("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="), m.field("Sec-WebSocket-Version", "13"))
	a := &answer{final: append([]byte("HTTP/1.1 101 "+oneOf(m, "Switching Protocols", "", "go")+"\r\n"+m.field("Upgrade", "websocket")+m.field("connection", "Upgrade")+m.field("Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")+"\r\n"), m.bytes(3000)...), upgrades: true, farewell: m.bytes(3000)}
	m.answers.Store(id, a)
	c.add(id, m.cutUp(head), a)
	c.steps = append(c.steps, step{segments: m.cutUp(append(m.bytes(3000), 'x'))})
	c.want = append(c.want, a.farewell...)
	return c
}

// refused upgrades are answered like other requests, and the connection is kept.
func (m *maker) refused() *conversation {
	c := &conversation{kind: "upgrade not taken"}
	for i := range 2 {
		var fields []string
		if i == 0 {
			fields = oneOf(m, []string{m.field("Connection", "Upgrade, HTTP2-Settings"), m.field("Upgrade", "h2c"), m.field("HTTP2-Settings", "AAMAAABkAAQAAP__")},
				[]string{m.field("Connection", "Upgrade"), m.field("Upgrade", "websocket")})
		}
		id, head := m.head("GET", m.target(), "HTTP/1.1", fields...)
		a := m.answer("GET", "HTTP/1.1", false)
		m.answers.Store(id, a)
		c.add(id, m.cutUp(head), a)
	}
	return c
}
