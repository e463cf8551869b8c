package simcheck

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sigma-scheduler/sigma/internal/cputime"
	"github.com/sigma-scheduler/sigma/internal/serve"
)

// underTest is the server under test: an ordinary net/http server whose handler waits
// and computes for the requested times. It prints its address and GOMAXPROCS and ends with its stdin.
func underTest() error {
	cputime.Calibrate()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr(), runtime.GOMAXPROCS(0))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /work", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		wait, _ := strconv.ParseInt(q.Get("wait"), 10, 64)
		cpu, err := strconv.ParseInt(q.Get("cpu"), 10, 64)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if wait > 0 {
			resp, err := client.Get(os.Getenv(backendVar) + "/?wait=" + q.Get("wait"))
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		cputime.Spend(cpu)
	})
	mux.HandleFunc("GET /spent", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(int64(cputime.Process() * 1e9))
	})
	go func() { // The parent is gone.
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}()
	return bounded(mux).Serve(context.Background(), l)
}

// bounded is a server with more connections than [client] keeps.
func bounded(handler http.Handler) *serve.Server {
	return &serve.Server{Handler: handler, Connections: 1 << 15, Patience: time.Minute}
}

// backendVar names the environment variable with the address of the backend.
const backendVar = "SIGMA_BACKEND"

// backend starts the other service that requests wait for, which answers after the
// requested time, and returns its address.
func backend() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	answer := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		nanos, _ := strconv.ParseInt(r.URL.Query().Get("wait"), 10, 64)
		ts := unix.NsecToTimespec(nanos)
		_ = unix.Nanosleep(&ts, nil)
	})
	go func() { _ = bounded(answer).Serve(context.Background(), l) }()
	return "http://" + l.Addr().String(), nil
}
