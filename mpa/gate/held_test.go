package gate

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A server answers before the body is whole, and keeps its connection. A caller that then sends no more
// is disconnected: such callers would use up --connections, and the gate would accept nobody else.
// A caller that still sends, however slowly, is not cut off, and its next request is answered.
func TestEarlyAnswerHoldsNobody(t *testing.T) {
	for _, whole := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			taken := make(chan int64, 2)
			p, call := inMemory(t, open(t, func(o *Options) { o.Limit = 2 }), func(*ProxyOptions) {}, func(_ int, c *duplex) {
				r := bufio.NewReader(c)
				skipHead(r)
				_, _ = io.WriteString(c, noAnswer)
				n, _ := io.Copy(io.Discard, r)
				taken <- n
			})
			c, _ := call("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
			require.NoError(t, c.SetDeadline(time.Now().Add(time.Hour)))
			r := bufio.NewReader(c)
			require.Contains(t, skipHead(r), " 200 ")
			for range 9 {
				time.Sleep(bodyGrace - time.Second)
				_, err := io.WriteString(c, "x")
				require.NoError(t, err)
			}
			if whole {
				_, err := io.WriteString(c, "x"+aGet)
				require.NoError(t, err)
				require.Contains(t, skipHead(r), " 200 ")
				require.EqualValues(t, 10, <-taken)
				return
			}
			last := time.Now()
			_, err := r.ReadByte()
			require.ErrorIs(t, err, io.EOF)
			require.InDelta(t, bodyGrace.Seconds(), time.Since(last).Seconds(), 1)
			require.EqualValues(t, 9, <-taken)
			time.Sleep(2 * lingering)
			synctest.Wait()
			require.Zero(t, p.connected())
		})
	}
}

// A server answers early and reads nothing more of the body, so that the gate reads no more of it
// either. A caller whose connection breaks then is noticed within a second: its connection and the
// server's would stay open for ever.
func TestCallerLeavesAfterAnEarlyAnswer(t *testing.T) {
	end := make(chan struct{})
	defer close(end)
	server := answering(t, func(c net.Conn) {
		skipHead(bufio.NewReader(c))
		_, _ = io.WriteString(c, noAnswer)
		<-end
		_ = c.Close()
	})
	p, outer := proxied(t, open(t, func(*Options) {}), func(o *ProxyOptions) { o.Target = server })
	dialledBy := stuckServers(p)
	c := dialled(t, outer, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
	require.Contains(t, skipHead(bufio.NewReader(c)), " 200 ")
	s := <-dialledBy
	s.stick()
	_, err := io.WriteString(c, "x")
	require.NoError(t, err)
	<-s.waits
	require.NoError(t, c.(*net.TCPConn).SetLinger(0))
	require.NoError(t, c.Close())
	require.Eventually(t, func() bool { return p.connected() == 0 }, bodyGrace/2, time.Millisecond)
}

// stuckServers returns the connections to the server, which can be stuck.
func stuckServers(p *Proxy) <-chan *stuck {
	dial, all := p.dial, make(chan *stuck, 100)
	p.dial = func(ctx context.Context) (net.Conn, error) {
		c, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		s := newStuck(c)
		all <- s
		return s, nil
	}
	return all
}

// A caller that reads nothing of its answer is disconnected, without a limit as well: such callers
// would use up --connections. With a limit that is after --abandoned, even where the whole answer has
// come from the server and the slot is free.
func TestAnswersThatNobodyReads(t *testing.T) {
	for limit, patience := range map[int]time.Duration{0: idleTime, 1: 7 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			g := open(t, func(o *Options) { o.Limit = limit })
			ended := make(chan time.Time, 1)
			p, call := inMemory(t, g, func(o *ProxyOptions) { o.Abandoned = 7 * time.Second }, func(_ int, c *duplex) {
				r := bufio.NewReader(c)
				skipHead(r)
				_, _ = io.WriteString(c, noAnswer)
				_, _ = r.ReadByte()
				ended <- time.Now()
			})
			begun := time.Now()
			call(aGet)
			synctest.Wait()
			inside, _, totals := g.Now()
			require.Equal(t, []any{0, uint64(1)}, []any{inside, totals.Answered})
			require.Equal(t, 1, p.connected())
			time.Sleep(time.Hour)
			synctest.Wait()
			require.Zero(t, p.connected(), "limit %d", limit)
			require.Equal(t, patience, (<-ended).Sub(begun), "limit %d", limit)
		})
	}
}

// The same on HTTP/2, where a write that waits for ever holds all streams of the connection, and the
// drain of the pod.
func TestStreamsThatNobodyReads(t *testing.T) {
	for limit, patience := range map[int]time.Duration{0: idleTime, 1: 50 * time.Second} {
		server := twoServer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "answer") })
		p, _ := proxied(t, open(t, func(o *Options) { o.Limit = limit }), func(o *ProxyOptions) { o.Target, o.Abandoned = server, 50*time.Second })
		callers := make(chan *stuck, 1)
		outer := answering(t, func(c net.Conn) {
			s := newStuck(c)
			callers <- s
			p.slots <- struct{}{}
			p.accept(s)
		})
		c := twoDialled(t, outer, http2.ClientPreface)
		awaitSettings(t, c)
		s := <-callers
		s.stick()
		askTwo(t, c)
		require.Eventually(t, func() bool { return p.connected() == 0 }, 5*time.Second, time.Millisecond, "limit %d", limit)
		assert.InDelta(t, patience.Seconds(), time.Until(s.limit()).Seconds(), 10)
	}
}

// twoDialled is a caller of HTTP/2 that begins with a text and its settings.
func twoDialled(t *testing.T, url, text string) *side {
	t.Helper()
	c := dialled(t, url, text)
	s := newSide(c, c, c, mostHead)
	require.NoError(t, s.framer.WriteSettings())
	require.NoError(t, s.out.Flush())
	return s
}

// awaitSettings reads up to the server's first settings.
func awaitSettings(t *testing.T, s *side) {
	t.Helper()
	for {
		f, err := s.framer.ReadFrame()
		require.NoError(t, err)
		if settings, ok := f.(*http2.SettingsFrame); ok && !settings.IsAck() {
			return
		}
	}
}

// askTwo sends a request as the first stream.
func askTwo(t *testing.T, s *side) {
	t.Helper()
	s.fields(1, []hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "a"}, {Name: ":path", Value: "/"}}, true)
	require.NoError(t, s.out.Flush())
}

// A server of HTTP/2 that stops reading is disconnected. Otherwise a write to it waits for ever with the
// link's lock: callers get no answer and cannot cancel, their slots are lost, and the pod does not drain.
func TestServerThatStopsReading(t *testing.T) {
	for _, hello := range []string{http2.ClientPreface, h2cGet + http2.ClientPreface} {
		upgrade := strings.HasPrefix(hello, "GET ")
		server := answering(t, func(c net.Conn) {
			defer func() { _ = c.Close() }()
			r := bufio.NewReader(c)
			skipHead(r)
			if upgrade {
				_, _ = io.WriteString(c, switches+"h2c\r\n\r\n")
			}
			_ = http2.NewFramer(c, nil).WriteSettings()
			_, _ = io.Copy(io.Discard, r)
		})
		g := open(t, func(o *Options) { o.Limit = 1 })
		p, outer := proxied(t, g, func(o *ProxyOptions) { o.Target, o.Abandoned = server, 10*time.Millisecond })
		servers := stuckServers(p)
		c := twoDialled(t, outer, hello)
		if upgrade {
			require.Contains(t, skipHead(c.in), " 101 ")
		}
		awaitSettings(t, c)
		if !upgrade { // else its request is the first stream
			askTwo(t, c)
		}
		require.Eventually(t, func() bool { inside, _, _ := g.Now(); return inside == 1 }, 5*time.Second, time.Millisecond)
		s := <-servers
		s.stick()
		require.NoError(t, c.framer.WriteSettings()) // the gate passes them on
		require.NoError(t, c.out.Flush())
		require.Eventually(t, func() bool { return p.connected() == 0 && p.Busy() == 0 }, 5*time.Second, time.Millisecond, "%.3s", hello)
		assert.InDelta(t, idleTime.Seconds(), time.Until(s.limit()).Seconds(), 10)
	}
}

// A server answers before the body has come, and the gate closes the connection to it while another goroutine begins to
// send the body. With the race detector this fails where both use one variable: the gate could
// panic, and all its requests be lost.
func TestAnswerBeforeTheBodyIsSent(t *testing.T) {
	p, outer := proxied(t, open(t, func(*Options) {}), func(o *ProxyOptions) { o.Target = "http://server" })
	p.dial = func(context.Context) (net.Conn, error) {
		return &instant{answer: strings.NewReader("HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")}, nil
	}
	for range 200 {
		c := dialled(t, outer, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n")
		go func() { _, _ = c.Write(make([]byte, 500)) }()
		require.Contains(t, skipHead(bufio.NewReader(c)), " 413 ")
		require.NoError(t, c.Close())
	}
	require.Eventually(t, func() bool { return p.connected() == 0 }, 5*time.Second, time.Millisecond)
}
