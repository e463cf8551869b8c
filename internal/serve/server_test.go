package serve

import (
	"context"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/klog/v2"

	"github.com/sigma-scheduler/sigma/internal/serve/servetest"
)

func TestMain(m *testing.M) {
	klog.StopFlushDaemon()
	goleak.VerifyTestMain(m)
}

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
	config, err := TLS("", "")
	require.NoError(t, err)
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
