package serve

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sigma-scheduler/sigma/internal/serve/servetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start serves in a bubble; stop returns when all connections and goroutines are gone.
func start(t *testing.T, s *Server) (l *servetest.Listener, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l = servetest.Listen()
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx, l) }()
	return l, func() {
		cancel()
		require.NoError(t, <-ended)
	}
}

// echo answers with the body of a call.
var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, _ = w.Write(text)
})

// Callers that are silent, or send half of a call, or a byte now and then, lose their
// connection, and keep nobody else out.
func TestSlowCallersAreCut(t *testing.T) {
	secured := httptest.NewTLSServer(echo)
	secured.Close()
	config := &tls.Config{Certificates: secured.TLS.Certificates} //nolint:gosec // a certificate is all that it lacks
	for name, secure := range map[string]bool{"http": false, "https": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &Server{Handler: echo, Connections: 600, Patience: 10 * time.Second}
				if secure {
					s.TLS = config
				}
				l, stop := start(t, s)
				var all sync.WaitGroup
				call := func(n int, c servetest.Caller, most time.Duration) {
					for range n {
						all.Go(func() {
							cut := c.Cut(t, l)
							require.Positive(t, cut)
							require.LessOrEqual(t, cut, most, "%+v", c)
						})
					}
				}
				half := "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhalf"
				call(300, servetest.Caller{}, 6*time.Second)
				if !secure { // a handshake costs CPU, and changes nothing
					call(100, servetest.Caller{Begin: half}, 10*time.Second)
					call(100, servetest.Caller{Begin: "POST / HTTP/1.1\r\nHo"}, 10*time.Second)
				}
				call(2, servetest.Caller{Begin: half, TLS: secure}, 16*time.Second)
				call(2, servetest.Caller{Begin: half, Drip: "slowly, but surely", Every: 3 * time.Second, TLS: secure}, 16*time.Second)
				time.Sleep(time.Second)
				url := "http://x/"
				if secure {
					url = "https://x/"
				}
				status, text := servetest.Post(t, l, url, "meanwhile")
				require.Equal(t, "meanwhile", text, status)
				all.Wait()
				stop()
			})
		})
	}
}

// What is above the bound waits for its turn.
func TestConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, stop := start(t, &Server{Handler: echo, Connections: 2, Patience: 10 * time.Second})
		for range 2 {
			go servetest.Caller{}.Cut(t, l)
		}
		synctest.Wait()
		begin := time.Now()
		status, _ := servetest.Post(t, l, "http://x/", "")
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, 5*time.Second, time.Since(begin))
		stop()
	})
}

// A call that is under way is answered before the server ends; one that hangs is given
// up.
func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(5 * time.Second)
			_, _ = w.Write([]byte("late"))
		})
		l, stop := start(t, &Server{Connections: 2, Patience: 10 * time.Second, Handler: late})
		var all sync.WaitGroup
		all.Go(func() { time.Sleep(time.Second); stop() })
		_, text := servetest.Post(t, l, "http://x/", "")
		require.Equal(t, "late", text)
		all.Wait()
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l := servetest.Listen()
		go servetest.Caller{Begin: "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf"}.Cut(t, l)
		begin := time.Now()
		time.AfterFunc(time.Second, cancel)
		s := &Server{Handler: echo, Connections: 2, Patience: time.Hour}
		require.ErrorIs(t, s.Serve(ctx, l), context.DeadlineExceeded)
		require.Equal(t, 11*time.Second, time.Since(begin))
	})
	require.Error(t, (&Server{Address: "nonsense"}).Start(t.Context()))
}

// Heads that are too long are refused before they are held, and all that a server can hold at a time
// has a bound, however short their fields are.
func TestHeadsAreBounded(t *testing.T) {
	const connections = 64
	held := func(field func(i int) string, size int) (status string, memory int64) {
		var head strings.Builder
		head.WriteString("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n")
		for i := 0; head.Len() < size; i++ {
			head.WriteString(field(i))
		}
		head.WriteString("\r\n")
		inside, end := make(chan struct{}, connections), make(chan struct{})
		ctx, stop := context.WithCancel(t.Context())
		l := servetest.Listen()
		s := &Server{Connections: connections, Patience: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			inside <- struct{}{}
			<-end
			runtime.KeepAlive(r.Header)
		})}
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(ctx, l) }()
		before := heap()
		answers := make(chan string, connections)
		for range connections {
			go func() { answers <- servetest.Line(l, head.String()) }()
		}
		for range connections {
			select {
			case <-inside:
			case status = <-answers:
			}
		}
		memory = heap() - before
		close(end)
		stop()
		require.NoError(t, <-ended)
		return status, memory
	}
	one := func(int) string { return "A: " + strings.Repeat("x", 1000) + "\r\n" }
	short := func(i int) string { return strconv.FormatInt(int64(i), 36) + ":\r\n" }
	for name, field := range map[string]func(int) string{"long fields": one, "short fields": short} {
		status, memory := held(field, 11<<10)
		require.Empty(t, status, name)
		require.Less(t, memory, int64(connections*320<<10), name)
		for _, size := range []int{13 << 10, 900 << 10} {
			status, _ = held(field, size)
			require.Equal(t, "HTTP/1.1 431 Request Header Fields Too Large", status, "%s, %d bytes", name, size)
		}
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC() // what finalizers and pools have kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A call that may take longer than its server's patience is neither cut off nor told that its caller
// is gone, and has an end too.
func TestSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		takes := 3 * time.Minute
		late := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
				_, _ = w.Write([]byte("gone"))
			case <-time.After(takes):
				_, _ = w.Write([]byte("late"))
			}
		})
		l, stop := start(t, &Server{Connections: 2, Patience: 10 * time.Second, Handler: Slowly(4*time.Minute, late)})
		_, text := servetest.Post(t, l, "http://x/", "")
		require.Equal(t, "late", text)
		takes = time.Hour
		cut := servetest.Caller{Begin: "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"}.Cut(t, l)
		require.Equal(t, 4*time.Minute, cut)
		stop()
	})
}

func TestServerWithoutBounds(t *testing.T) {
	for _, s := range []*Server{{Patience: time.Second}, {Connections: 1}, {Connections: -1, Patience: time.Second}} {
		l := servetest.Listen()
		require.ErrorContains(t, s.Serve(t.Context(), l), "want more than 0", fmt.Sprint(s.Connections, s.Patience))
		require.Nil(t, l.Dial(), "the listener is closed")
	}
}
