package serve

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/serve/servetest"
)

// Large bodies that stall take the places of large ones for a while, and of small ones
// never.
func TestBodiesThatStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, stop := start(t, &Server{Handler: NewBodies(1<<20, 1000, 1).Handler(echo), Connections: 100, Patience: 10 * time.Second})
		half := fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", 1<<20, strings.Repeat(" ", 1<<19))
		var all sync.WaitGroup
		for range large {
			all.Go(func() { require.LessOrEqual(t, servetest.Caller{Begin: half}.Cut(t, l), 11*time.Second) })
		}
		synctest.Wait()
		begin := time.Now()
		status, text := servetest.Post(t, l, "http://x/", "small")
		require.Equal(t, "small", text, status)
		require.Zero(t, time.Since(begin))

		whole := strings.Repeat(" ", 1<<20)
		status, text = servetest.Post(t, l, "http://x/", whole)
		require.Equal(t, "503 too many calls at a time\n", fmt.Sprint(status, " ", text))
		require.Equal(t, turnPatience, time.Since(begin))
		time.Sleep(time.Second)
		status, text = servetest.Post(t, l, "http://x/", whole)
		require.Equal(t, http.StatusOK, status, text)
		require.Len(t, text, len(whole))
		require.Equal(t, 10*time.Second, time.Since(begin))
		all.Wait()
		stop()
	})
}

func TestBodiesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, stop := start(t, &Server{Handler: NewBodies(1<<20, 1000, 1).Handler(echo), Connections: 100, Patience: 10 * time.Second})
		most := 1 << 20
		for body, want := range map[string]string{
			"":                           "200 ",
			strings.Repeat(" ", most+1):  "413 the request is larger than 1048576 bytes\n",
			strings.Repeat(",", 999):     "200 ",
			strings.Repeat(",", 1000):    "413 the request has more than 1000 values\n",
			strings.Repeat(" ", small):   "200 ",
			strings.Repeat(" ", small-1): "200 ",
			strings.Repeat(" ", most):    "200 ",
		} {
			status, text := servetest.Post(t, l, "http://x/", body)
			if status == http.StatusOK {
				require.Len(t, text, len(body))
				text = ""
			}
			require.Equal(t, want, fmt.Sprint(status, " ", text), len(body))
		}
		// Its length is not said before.
		chunk := fmt.Sprintf("%x\r\n%s\r\n", 1<<18, strings.Repeat(" ", 1<<18))
		endless := "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat(chunk, 100)
		require.LessOrEqual(t, servetest.Caller{Begin: endless}.Cut(t, l), time.Second)
		stop()
	})
}

// A caller that goes away is waited for no longer.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBodies(1, 0, 1)
		done, err := b.Turn(t.Context())
		require.NoError(t, err)
		_, err = b.Turn(t.Context())
		require.EqualError(t, err, "too many calls at a time")
		time.AfterFunc(time.Second, done)
		begin := time.Now()
		done, err = b.Turn(t.Context())
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(begin))
		done()
	})
}
