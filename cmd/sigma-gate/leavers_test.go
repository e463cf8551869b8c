package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	schedulesFlag = flag.Int("schedules", 50, "random schedules of TestLeavers")
	secondFlag    = flag.Duration("second", 3*time.Millisecond, "length of a second of TestLeavers' schedules")
)

// A stubborn server works on whether its caller is there or not, and counts.
type stubborn struct {
	inside, most, began atomic.Int64
}

// ServeHTTP works for as long as X-Work says, in as many parts as X-Parts says.
func (s *stubborn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.began.Add(1)
	for now := s.inside.Add(1); ; {
		most := s.most.Load()
		if now <= most || s.most.CompareAndSwap(most, now) {
			break
		}
	}
	_, err := io.Copy(io.Discard, r.Body)
	work, _ := time.ParseDuration(r.Header.Get("X-Work"))
	parts, _ := strconv.Atoi(r.Header.Get("X-Parts"))
	if err != nil && r.Header.Get("X-Gives-Up") != "" {
		parts = 0
	}
	for range parts {
		time.Sleep(work / time.Duration(parts))
		_, _ = io.WriteString(w, "part")
		_ = http.NewResponseController(w).Flush()
	}
	s.inside.Add(-1) // the answer ends after this
}

// A caller of a schedule.
type caller struct {
	kind  string
	comes time.Duration
	stays time.Duration // 0 = until it is answered
	work  time.Duration
	parts int
	up    bool // the server gives up where the body ends early
}

var callerKinds = []string{"GET", "POST", "chunked", "half a body", "half-closed", "reset", "half a head", "GET of HTTP/2", "POST of HTTP/2"}

// call takes a caller's part and reports whether it was answered whole.
func (c *caller) call(address string, two *http.Client) bool {
	time.Sleep(c.comes)
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	if c.stays > 0 {
		defer time.AfterFunc(c.stays, leave).Stop()
	}
	if strings.HasSuffix(c.kind, "HTTP/2") {
		return c.two(ctx, address, two)
	}
	return c.one(ctx, address)
}

func (c *caller) header() http.Header {
	h := http.Header{"X-Work": {c.work.String()}, "X-Parts": {strconv.Itoa(c.parts)}}
	if c.up {
		h.Set("X-Gives-Up", "1")
	}
	return h
}

func (c *caller) two(ctx context.Context, address string, client *http.Client) bool {
	method, body, _ := strings.Cut(c.kind, " ")
	if method == "GET" {
		body = ""
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+address+"/", strings.NewReader(body))
	if err != nil {
		return false
	}
	r.Header = c.header()
	answer, err := client.Do(r)
	if err != nil {
		return false
	}
	defer func() { _ = answer.Body.Close() }()
	_, err = io.Copy(io.Discard, answer.Body)
	return err == nil && answer.StatusCode == http.StatusOK
}

func (c *caller) one(ctx context.Context, address string) bool {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	context.AfterFunc(ctx, func() {
		if c.kind == "reset" {
			_ = conn.(*net.TCPConn).SetLinger(0)
		}
		_ = conn.Close()
	})
	var head bytes.Buffer
	_ = c.header().Write(&head)
	lines, end := "Host: a\r\nConnection: close\r\n"+head.String(), "\r\n"
	method := "GET"
	switch c.kind {
	case "POST", "half-closed", "reset":
		method, end = "POST", "Content-Length: 4\r\n\r\nbody"
	case "chunked":
		method, end = "POST", "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"
	case "half a body":
		method, end = "POST", "Content-Length: 8\r\n\r\nbody"
	case "half a head":
		end = ""
	}
	_, _ = io.WriteString(conn, method+" / HTTP/1.1\r\n"+lines+end)
	if c.kind == "half-closed" {
		_ = conn.(*net.TCPConn).CloseWrite()
	}
	answer, err := io.ReadAll(conn)
	return err == nil && bytes.HasPrefix(answer, []byte("HTTP/1.1 200")) && bytes.HasSuffix(answer, []byte("0\r\n\r\n"))
}

// schedule draws callers. Those that do not send all must leave.
func schedule(m *rand.Rand, second time.Duration) []caller {
	callers := make([]caller, 6+m.IntN(10))
	for i := range callers {
		c := &callers[i]
		c.kind = callerKinds[m.IntN(len(callerKinds))]
		c.comes = time.Duration(m.Float64() * 6 * float64(second))
		c.work = time.Duration(m.Float64() * m.Float64() * 10 * float64(second))
		c.parts = 1 + m.IntN(3)
		c.up = m.IntN(2) == 0
		if m.IntN(3) > 0 || strings.HasPrefix(c.kind, "half a") {
			c.stays = 1 + time.Duration(m.Float64()*m.Float64()*12*float64(second))
		}
	}
	return callers
}

// TestLeavers: a server that works on for callers that have left never works on more requests
// than the limit, and each slot is free again in the end.
func TestLeavers(t *testing.T) {
	const workers = 16
	var left atomic.Int64
	left.Store(int64(*schedulesFlag))
	var mu sync.Mutex
	sums := map[string]int{}
	var group sync.WaitGroup
	for w := range workers {
		limit := 1 + w%4
		server := &stubborn{}
		pod := httptest.NewUnstartedServer(server)
		pod.Config.Protocols = new(http.Protocols)
		pod.Config.Protocols.SetHTTP1(true)
		pod.Config.Protocols.SetUnencryptedHTTP2(true)
		pod.Start()
		t.Cleanup(pod.Close)
		gate := startGate(t, pod.Listener.Addr().String(), "--limit", strconv.Itoa(limit), "--queue", strconv.Itoa(4+w%8), "--wait", (15 * *secondFlag).String(),
			"--abandoned", max(time.Second, 30**secondFlag).String())
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
		transport := &http.Transport{Protocols: protocols}
		t.Cleanup(transport.CloseIdleConnections)
		group.Go(func() {
			m := rand.New(rand.NewPCG(3, uint64(w)))
			for n := 0; left.Add(-1) >= 0 && !t.Failed(); n++ {
				if text := oneSchedule(gate, server, limit, schedule(m, *secondFlag), &http.Client{Transport: transport, Timeout: 10 * time.Second}, func(what string, n int) {
					mu.Lock()
					defer mu.Unlock()
					sums[what] += n
				}); text != "" {
					assert.Fail(t, text, "worker %d, schedule %d, limit %d", w, n, limit)
				}
			}
		})
	}
	group.Wait()
	require.Positive(t, sums["schedules"])
	t.Logf("| %d | %d | %d | %d | %d | %d | %d |", sums["schedules"], sums["callers"], sums["leavers"], sums["server"], sums["answered whole"], sums["refused or left"], sums["full"])
}

var letIn, notLetIn = []string{"answered", "failed", "gone"}, []string{"full", "late", "left"}

// oneSchedule returns what is wrong with it.
func oneSchedule(gate *runningGate, server *stubborn, limit int, callers []caller, two *http.Client, count func(string, int)) string {
	server.most.Store(0)
	beganBefore := server.began.Load()
	letBefore, othersBefore := gate.totals(letIn...), gate.totals(notLetIn...)
	var answered, stayed, reached atomic.Int64
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			if callers[i].call(gate.listen, two) {
				answered.Add(1)
			}
			if callers[i].stays == 0 {
				stayed.Add(1)
			} else {
				count("leavers", 1)
			}
			if callers[i].kind != "half a head" {
				reached.Add(1)
			}
		})
	}
	group.Wait()
	var inside, waiting float64
	// What a caller wrote before it left may lie in the kernel for a while.
	for late, quiet := time.Now().Add(8*time.Second), 0; quiet < 20 && time.Now().Before(late); time.Sleep(2 * time.Millisecond) {
		values := gate.values()
		inside, waiting = values["sigma_gate_inside"], values["sigma_gate_waiting"]
		if quiet++; inside+waiting > 0 || server.inside.Load() > 0 {
			quiet = 0
		}
	}
	let, others := gate.totals(letIn...)-letBefore, gate.totals(notLetIn...)-othersBefore
	began, most := int(server.began.Load()-beganBefore), int(server.most.Load())
	count("schedules", 1)
	count("callers", len(callers))
	count("server", began)
	count("answered whole", int(answered.Load()))
	count("refused or left", others)
	if most == limit {
		count("full", 1)
	}
	switch {
	case most > limit:
		return fmt.Sprintf("the server works on %d requests at once", most)
	case inside+waiting > 0 || server.inside.Load() > 0:
		return fmt.Sprintf("%v inside and %v waiting in the end, %d at the server", inside, waiting, server.inside.Load())
	case began > let:
		return fmt.Sprintf("the server received %d requests of %d that were let in", began, let)
	case int(answered.Load()) > began:
		return fmt.Sprintf("%d answers of %d requests at the server", answered.Load(), began)
	case let+others > int(reached.Load()) || let+others < int(stayed.Load()):
		return fmt.Sprintf("%d let in and %d not, of %d requests, %d of whose callers stayed", let, others, reached.Load(), stayed.Load())
	}
	return ""
}
