package gate

import (
	"bufio"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A tunnel that one end has left is closed after lastWords, until which the other end's bytes still pass. Tunnels
// that stay would use up --upgrades, and no WebSocket would be accepted.
func TestTunnelThatOneEndHasLeft(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, c, gated, server *duplex){
		"the server closes its half": func(t *testing.T, c, _, server *duplex) {
			require.NoError(t, server.CloseWrite())
			_, err := c.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF)
			time.Sleep(lastWords - time.Second)
			_, err = io.WriteString(c, "last")
			require.NoError(t, err)
			words := make([]byte, 4)
			_, err = io.ReadFull(server, words)
			require.NoError(t, err)
			require.Equal(t, "last", string(words))
		},
		"the server closes": func(t *testing.T, c, _, server *duplex) {
			require.NoError(t, server.Close())
			_, err := c.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF)
		},
		"the server closes its half and reads nothing": func(t *testing.T, c, _, server *duplex) {
			require.NoError(t, server.CloseWrite())
			_, err := io.WriteString(c, "more")
			require.NoError(t, err)
		},
		"the caller's connection breaks": func(t *testing.T, _, gated, _ *duplex) {
			require.NoError(t, gated.Conn.Close())
		},
		"the caller closes": func(t *testing.T, c, _, server *duplex) {
			require.NoError(t, c.Close())
			_, err := server.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF)
			require.NoError(t, server.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				servers := make(chan *duplex, 1)
				p, call := inMemory(t, open(t, func(o *Options) { o.Limit = 1 }), func(*ProxyOptions) {}, func(_ int, c *duplex) {
					skipHead(bufio.NewReader(c))
					_, _ = io.WriteString(c, switches+"echo\r\n\r\n")
					servers <- c
				})
				c, gated := call("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
				require.NoError(t, c.SetDeadline(time.Now().Add(time.Hour)))
				skipHead(bufio.NewReader(c))
				synctest.Wait()
				require.Equal(t, 1, p.Upgraded())
				time.Sleep(time.Hour / 2)
				synctest.Wait()
				require.Equal(t, 1, p.Upgraded(), "it may be silent for long")
				leave(t, c, gated, <-servers)
				time.Sleep(lastWords + time.Second)
				synctest.Wait()
				require.Equal(t, []int{0, 0}, []int{p.Upgraded(), p.connected()})
			})
		})
	}
}
