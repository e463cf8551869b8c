package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A runningGate is the command in this process.
type runningGate struct{ listen, admin, metrics string }

// startGate runs the command before a server until the test ends, which it does without an error.
func startGate(t testing.TB, server string, flags ...string) *runningGate {
	t.Helper()
	g := &runningGate{listen: freeAddress(t), admin: freeAddress(t), metrics: freeAddress(t)}
	cmd := command(&options{})
	cmd.SetArgs(append([]string{
		"--target", "http://" + server, "--listen", g.listen, "--admin", g.admin, "--metrics", g.metrics,
		"--linger", "0s", "--drain", "5s",
	}, flags...))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	for late := time.Now().Add(10 * time.Second); ; {
		if code, _ := get("http://" + g.metrics + "/readyz"); code == 200 {
			break
		}
		select {
		case err := <-ended:
			stop()
			require.FailNow(t, "the command ended", "%v", err)
		case <-time.After(5 * time.Millisecond):
		}
		require.True(t, time.Now().Before(late), "the command is not ready")
	}
	t.Cleanup(func() {
		stop()
		assert.NoError(t, <-ended)
	})
	return g
}

// values returns the metrics of the gate by name and labels.
func (g *runningGate) values() map[string]float64 {
	values := map[string]float64{}
	_, text := get("http://" + g.metrics + "/metrics")
	for line := range strings.Lines(text) {
		if name, rest, ok := strings.Cut(line, " "); ok && strings.HasPrefix(name, "sigma_gate_") {
			values[name], _ = strconv.ParseFloat(strings.TrimSpace(rest), 64)
		}
	}
	return values
}

func (g *runningGate) value(name string) float64 { return g.values()[name] }

// totals returns the requests with one of the results.
func (g *runningGate) totals(results ...string) (sum int) {
	values := g.values()
	for _, result := range results {
		sum += int(values[`sigma_gate_requests_total{result="`+result+`"}`])
	}
	return sum
}

// An answer is the bytes that a recorder sends for one request.
type answer struct {
	interim  []byte // before the body is read
	final    []byte
	early    bool // the final answer is sent before the body is read, too
	closes   bool // the connection ends with the answer
	upgrades bool // the bytes that follow are no requests
	farewell []byte
}

// A received request has the exact bytes of its head and its body with all chunks and trailers.
type received struct {
	head, body []byte
	whole      bool   // false where the connection or the form ends it early
	tunnel     []byte // of the caller after an upgrade
	done       chan struct{}
}

// ended waits until the server has read the request or its connection is closed.
func (r *received) ended() bool {
	select {
	case <-r.done:
		return true
	case <-time.After(2 * time.Second):
		return false
	}
}

// A recorder is a server that reads strictly, keeps the bytes of requests and sends given ones.
type recorder struct {
	listener net.Listener
	answers  func(head []byte) *answer

	mu  sync.Mutex
	all []*received
	by  map[string]*received // by the number in X-Case, the last
	n   map[string]int       // how often that number was received
}

func newRecorder(t testing.TB, answers func(head []byte) *answer) *recorder {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &recorder{listener: listener, answers: answers, by: map[string]*received{}, n: map[string]int{}}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go r.serve(conn.(*net.TCPConn))
		}
	}()
	return r
}

func (r *recorder) address() string { return r.listener.Addr().String() }

var caseLine = regexp.MustCompile(`(?i)\r\nx-case:[ \t]*(\d+)`)

// caseOf returns the number of a request.
func caseOf(head []byte) string {
	if found := caseLine.FindSubmatch(head); found != nil {
		return string(found[1])
	}
	return ""
}

func (r *recorder) keep(got *received) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, got)
	id := caseOf(got.head)
	r.by[id] = got
	r.n[id]++
}

// take returns a request once it is read, and how often it came.
func (r *recorder) take(id string) (*received, int) {
	for late := time.Now().Add(2 * time.Second); time.Now().Before(late); time.Sleep(50 * time.Microsecond) {
		r.mu.Lock()
		got, n := r.by[id], r.n[id]
		r.mu.Unlock()
		if got == nil {
			continue
		}
		if !got.ended() {
			return nil, n
		}
		r.mu.Lock()
		delete(r.by, id)
		r.all = nil
		r.mu.Unlock()
		return got, n
	}
	return nil, 0
}

// reset forgets all requests and returns them.
func (r *recorder) reset() []*received {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all, r.by, r.n = nil, map[string]*received{}, map[string]int{}
	return all
}

func (r *recorder) serve(conn *net.TCPConn) {
	defer func() { _ = conn.Close() }()
	from := bufio.NewReader(conn)
	for r.one(conn, from) {
	}
}

// one answers the next request and reports whether another may follow.
func (r *recorder) one(conn *net.TCPConn, from *bufio.Reader) bool {
	head, err := readHead(from)
	if err != nil {
		return false
	}
	length, chunked, err := framing(head)
	if err != nil {
		return false
	}
	got := &received{head: head, done: make(chan struct{})}
	defer close(got.done)
	r.keep(got)
	plan := r.answers(head)
	_, _ = conn.Write(plan.interim)
	if plan.early {
		_, _ = conn.Write(plan.final)
		if plan.closes { // the caller may still write, and must not lose the answer by that
			_ = conn.CloseWrite()
			_ = conn.SetReadDeadline(time.Now().Add(time.Second))
			_, _ = io.Copy(io.Discard, from)
			return false
		}
	}
	got.body, err = readBody(from, length, chunked)
	if err != nil {
		return false
	}
	got.whole = true
	if !plan.early {
		_, _ = conn.Write(plan.final)
	}
	if plan.upgrades {
		got.tunnel, _ = io.ReadAll(from)
		_, _ = conn.Write(plan.farewell)
	}
	return !plan.closes && !plan.upgrades
}

var errForm = errors.New("not a request of HTTP/1")

const mostHead = 4 << 20

// readHead reads to the empty line. Empty lines before a request are left out.
func readHead(from *bufio.Reader) ([]byte, error) {
	var head []byte
	for {
		line, err := from.ReadBytes('\n')
		switch {
		case err != nil:
			return nil, err
		case !bytes.HasSuffix(line, []byte("\r\n")) || len(head) > mostHead:
			return nil, errForm
		case len(line) == 2 && len(head) == 0:
			continue
		}
		head = append(head, line...)
		if len(line) == 2 {
			return head, nil
		}
	}
}

var (
	requestLine = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+ [^\\x00-\\x20\\x7f]+ HTTP/1\\.[01]$")
	headerLine  = regexp.MustCompile("^([!#$%&'*+.^_`|~0-9A-Za-z-]+):([^\\x00-\\x08\\x0a-\\x1f\\x7f]*)$")
	digits      = regexp.MustCompile(`^[0-9]{1,18}$`)
	chunkLine   = regexp.MustCompile("^([0-9A-Fa-f]{1,15})[ \\t]*(;[^\\x00-\\x08\\x0a-\\x1f\\x7f]*)?\r\n$")
)

// framing returns the length of a request's body, or that it is in chunks, by RFC 9112, section 6.
func framing(head []byte) (length int64, chunked bool, err error) {
	lines := strings.Split(strings.TrimSuffix(string(head), "\r\n\r\n"), "\r\n")
	if !requestLine.MatchString(lines[0]) {
		return 0, false, errForm
	}
	var lengths, encodings []string
	for _, line := range lines[1:] {
		field := headerLine.FindStringSubmatch(line)
		if field == nil {
			return 0, false, errForm
		}
		value := strings.Trim(field[2], " \t")
		switch strings.ToLower(field[1]) {
		case "content-length":
			lengths = append(lengths, value)
		case "transfer-encoding":
			encodings = append(encodings, strings.ToLower(value))
		}
	}
	switch {
	case len(encodings) == 1 && encodings[0] == "chunked" && len(lengths) == 0 && strings.HasSuffix(lines[0], "1"):
		return 0, true, nil
	case len(encodings) > 0 || len(lengths) > 1:
		return 0, false, errForm
	case len(lengths) == 0:
		return 0, false, nil
	case !digits.MatchString(lengths[0]):
		return 0, false, errForm
	}
	length, err = strconv.ParseInt(lengths[0], 10, 64)
	return length, false, err
}

func readBody(from *bufio.Reader, length int64, chunked bool) ([]byte, error) {
	var body bytes.Buffer
	if !chunked {
		_, err := io.CopyN(&body, from, length)
		return body.Bytes(), err
	}
	for {
		line, err := from.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		size := chunkLine.FindSubmatch(line)
		if size == nil {
			return nil, errForm
		}
		body.Write(line)
		n, err := strconv.ParseInt(string(size[1]), 16, 64)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			break
		}
		if _, err := io.CopyN(&body, from, n); err != nil {
			return nil, err
		}
		end := make([]byte, 2)
		if _, err := io.ReadFull(from, end); err != nil || string(end) != "\r\n" {
			return nil, errForm
		}
		body.Write(end)
	}
	for {
		line, err := from.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		body.Write(line)
		switch {
		case string(line) == "\r\n":
			return body.Bytes(), nil
		case !bytes.HasSuffix(line, []byte("\r\n")) || !headerLine.Match(line[:len(line)-2]):
			return nil, errForm
		}
	}
}

// A step of a caller: bytes in segments, then so many bytes of answers are awaited.
type step struct {
	segments [][]byte
	expect   int
}

// converse takes the steps on one connection, ends its own side and returns all bytes that came.
func converse(address string, steps []step, most time.Duration) ([]byte, error) {
	conn, err := net.DialTimeout("tcp", address, most)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(most))
	var all []byte
	for _, s := range steps {
		for _, segment := range s.segments {
			if _, err := conn.Write(segment); err != nil {
				break // the answer says why
			}
		}
		got := make([]byte, s.expect)
		n, err := io.ReadFull(conn, got)
		all = append(all, got[:n]...)
		if err != nil {
			return all, fmt.Errorf("%d of %d bytes: %w", n, s.expect, err)
		}
	}
	_ = conn.(*net.TCPConn).CloseWrite()
	rest, err := io.ReadAll(conn)
	return append(all, rest...), err
}

// A normaliser returns why the head that a server receives through the gate is not the one
// that it receives directly, "" where it is.
type normaliser func(direct, through []byte) string

func unchanged(direct, through []byte) string {
	if bytes.Equal(direct, through) {
		return ""
	}
	return "the head differs"
}

var forwardedLine = regexp.MustCompile(`(?i)^x-forwarded-for:`)

// callerAppended allows that the caller is appended to the last X-Forwarded-For, or is a line
// of its own at the end.
func callerAppended(direct, through []byte) string {
	const caller = "127.0.0.1"
	want := strings.Split(strings.TrimSuffix(string(direct), "\r\n\r\n"), "\r\n")
	got := strings.Split(strings.TrimSuffix(string(through), "\r\n\r\n"), "\r\n")
	last := -1
	for i, line := range want {
		if forwardedLine.MatchString(line) {
			last = i
		}
	}
	if last < 0 {
		if got[len(got)-1] != "X-Forwarded-For: "+caller {
			return "no X-Forwarded-For at the end"
		}
		return unchanged([]byte(strings.Join(want, "\n")), []byte(strings.Join(got[:len(got)-1], "\n")))
	}
	if len(got) != len(want) {
		return "another number of lines"
	}
	had := strings.TrimRight(want[last], " \t")
	added, ok := strings.CutPrefix(got[last], had)
	if !ok || strings.Trim(added, ", \t") != caller {
		return "the caller is not appended to the last X-Forwarded-For"
	}
	got[last] = want[last]
	return unchanged([]byte(strings.Join(want, "\n")), []byte(strings.Join(got, "\n")))
}

func TestCallerAppended(t *testing.T) {
	head := func(lines string) []byte { return []byte("GET / HTTP/1.1\r\n" + lines + "\r\n") }
	for _, s := range []struct {
		direct, through string
		same            bool
	}{
		{"Host: a\r\n", "Host: a\r\nX-Forwarded-For: 127.0.0.1\r\n", true},
		{"Host: a\r\n", "X-Forwarded-For: 127.0.0.1\r\nHost: a\r\n", false},
		{"Host: a\r\n", "Host: a\r\n", false},
		{"Host: a\r\n", "host: a\r\nX-Forwarded-For: 127.0.0.1\r\n", false},
		{"x-forwarded-for:  b \r\nHost: a\r\n", "x-forwarded-for:  b, 127.0.0.1\r\nHost: a\r\n", true},
		{"x-forwarded-for:  b\r\nHost: a\r\n", "x-forwarded-for: b, 127.0.0.1\r\nHost: a\r\n", false},
		{"X-Forwarded-For: b\r\nX-Forwarded-For: c\r\n", "X-Forwarded-For: b\r\nX-Forwarded-For: c, 127.0.0.1\r\n", true},
		{"X-Forwarded-For: b\r\nX-Forwarded-For: c\r\n", "X-Forwarded-For: b, c, 127.0.0.1\r\n", false},
		{"X-Forwarded-For: b\r\n", "X-Forwarded-For: b, 127.0.0.2\r\n", false},
		{"X-Forwarded-For: \r\n", "X-Forwarded-For: 127.0.0.1\r\n", true},
	} {
		assert.Equal(t, s.same, callerAppended(head(s.direct), head(s.through)) == "", s.through)
	}
}
