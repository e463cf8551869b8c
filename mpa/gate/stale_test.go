package gate

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
)

// A POST cannot be repeated. One that has waited in the queue for longer than servers keep idle connections
// is sent on a new connection: on the old one it would be lost, and its caller would get 502.
func TestOldConnectionIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := open(t, func(o *Options) { o.Limit, o.MaxWait = 1, time.Minute })
		free := make(chan struct{})
		_, call := inMemory(t, g, func(*ProxyOptions) {}, func(n int, c *duplex) {
			defer func() { _ = c.Close() }()
			r := bufio.NewReader(c)
			skipHead(r)
			if n == 2 {
				<-free
			}
			_, _ = io.WriteString(c, noAnswer)
			_ = c.SetReadDeadline(time.Now().Add(2 * serverIdle))
			_, _ = r.ReadByte()
		})
		c, _ := call(aGet)
		r := bufio.NewReader(c)
		require.Contains(t, skipHead(r), " 200 ")
		other, _ := call(aGet)
		go func() { _, _ = io.Copy(io.Discard, other) }()
		synctest.Wait()
		_, err := io.WriteString(c, aPost)
		require.NoError(t, err)
		synctest.Wait()
		_, waiting, _ := g.Now()
		require.Equal(t, 1, waiting)
		time.Sleep(3 * serverIdle)
		close(free)
		require.Contains(t, skipHead(r), " 200 ")
	})
}

// An idle connection to the server is closed after a second, and at once where the caller continues with
// HTTP/2, which has a connection of its own. Otherwise the gate runs out of file descriptors.
func TestIdleConnectionsEnd(t *testing.T) {
	for next, want := range map[string]time.Duration{"": serverIdle, http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00": 0} {
		synctest.Test(t, func(t *testing.T) {
			ended := make(chan time.Time, 1)
			_, call := inMemory(t, open(t, func(*Options) {}), func(*ProxyOptions) {}, func(n int, c *duplex) {
				r := bufio.NewReader(c)
				if n == 1 {
					skipHead(r)
					_, _ = io.WriteString(c, noAnswer)
					_, _ = r.ReadByte()
					ended <- time.Now()
					return
				}
				go func() { _ = http2.NewFramer(c, nil).WriteSettings() }()
				_, _ = io.Copy(io.Discard, r)
			})
			c, _ := call(aGet)
			r := bufio.NewReader(c)
			require.Contains(t, skipHead(r), " 200 ")
			begun := time.Now()
			_, err := io.WriteString(c, next)
			require.NoError(t, err)
			go func() { _, _ = io.Copy(io.Discard, r) }()
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Len(t, ended, 1, "%.3q", next)
			require.Equal(t, want, (<-ended).Sub(begun), "%.3q", next)
		})
	}
}

// A server sends 408 on an idle connection, or closes it. A POST that follows is sent on a new
// connection: its caller would get that 408 as the answer, or 502.
func TestEndedConnectionIsNotUsed(t *testing.T) {
	const late = "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"
	for name, end := range map[string]struct {
		with, after string
		closes      bool
	}{
		"408 with an answer": {with: late},
		"408 later":          {after: late},
		"closed":             {closes: true},
	} {
		t.Run(name, func(t *testing.T) {
			read, done := make(chan struct{}), make(chan struct{})
			server := answering(t, func(c net.Conn) {
				defer func() { _ = c.Close() }()
				r := bufio.NewReader(c)
				if strings.HasPrefix(skipHead(r), "POST") {
					_, _ = io.WriteString(c, "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
					return
				}
				_, _ = io.WriteString(c, noAnswer+end.with)
				<-read
				_, _ = io.WriteString(c, end.after)
				if end.closes {
					_ = c.Close()
				}
				close(done)
				_, _ = io.Copy(io.Discard, r)
			})
			_, outer := proxied(t, open(t, func(*Options) {}), func(o *ProxyOptions) { o.Target = server })
			c := dialled(t, outer, aGet)
			r := bufio.NewReader(c)
			require.Contains(t, skipHead(r), " 200 ")
			close(read)
			<-done
			_, err := io.WriteString(c, aPost)
			require.NoError(t, err)
			require.Contains(t, skipHead(r), " 201 ")
		})
	}
}

// The server's first SETTINGS arrive after the gate has sent its own, because none had come for dialTime.
// They are not passed on: a caller that gets a second acknowledgement of its settings closes the
// connection with an error, and all its requests fail.
func TestLateSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, call := inMemory(t, open(t, func(o *Options) { o.Limit = 1 }), func(*ProxyOptions) {}, func(_ int, c *duplex) {
			go func() { _, _ = io.Copy(io.Discard, c) }()
			time.Sleep(dialTime + time.Second)
			framer := http2.NewFramer(c, nil)
			_ = framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1})
			_ = framer.WriteSettingsAck()
		})
		c, _ := call(http2.ClientPreface)
		s := newSide(c, c, c, mostHead)
		var frames []string
		begun := time.Now()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for {
				f, err := s.framer.ReadFrame()
				if err != nil {
					return
				}
				if h, ok := f.(*http2.MetaHeadersFrame); ok {
					frames = append(frames, h.PseudoValue("status"))
				} else {
					frames = append(frames, f.Header().Type.String())
				}
			}
		}()
		synctest.Wait()
		require.NoError(t, s.framer.WriteSettings())
		require.NoError(t, s.out.Flush())
		time.Sleep(dialTime + 2*time.Second - time.Since(begun))
		askTwo(t, s)
		<-ended
		require.Equal(t, []string{"SETTINGS", "SETTINGS", "502", "GOAWAY"}, frames, "the second SETTINGS is the acknowledgement")
	})
}

// A server upgrades a connection to HTTP/2 and sends no SETTINGS. The request that was upgraded gets no answer:
// its connection is closed and its slot is free. Otherwise each such request lowers the limit for ever.
func TestNoSettingsAfterAnUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := open(t, func(o *Options) { o.Limit = 1 })
		p, call := inMemory(t, g, func(*ProxyOptions) {}, func(_ int, c *duplex) {
			r := bufio.NewReader(c)
			skipHead(r)
			_, _ = io.WriteString(c, switches+"h2c\r\n\r\n")
			_, _ = io.Copy(io.Discard, r)
		})
		c, _ := call(h2cGet + http2.ClientPreface)
		go func() { _, _ = io.Copy(io.Discard, c) }()
		synctest.Wait()
		require.NoError(t, http2.NewFramer(c, nil).WriteSettings())
		time.Sleep(dialTime + 2*lingering)
		synctest.Wait()
		require.Equal(t, []int{0, 0}, []int{p.Busy(), p.connected()})
	})
}
