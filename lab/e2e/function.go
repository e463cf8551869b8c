//go:build e2e

package e2e

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"time"

	"github.com/sigma-scheduler/sigma/internal/cputime"
)

// A Function is the work of a pod's program for a request.
type Function struct {
	Wait, CPU time.Duration // it waits, and then computes
	// Connections are those to a database, of which each request holds one. A request without a free one
	// is lost. 0 = any number.
	Connections int
}

const (
	// functionVar is set in the environment of this program if it runs as a function: to the Function in
	// JSON.
	functionVar     = "SIGMA_E2E_FUNCTION"
	functionAddress = "127.0.0.1:8080"
	// fullHeader is that of the answer to a request without a connection.
	fullHeader = "Function-Full"
)

// serve is the function. It answers until its standard input ends.
func (f *Function) serve() error {
	runtime.GOMAXPROCS(1)
	cputime.Calibrate()
	listener, err := net.Listen("tcp", functionAddress)
	if err != nil {
		return err
	}
	free := make(chan struct{}, max(1, f.Connections))
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.Connections > 0 {
			select {
			case free <- struct{}{}:
				defer func() { <-free }()
			default:
				w.Header().Set(fullHeader, "yes")
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
		}
		select {
		case <-time.After(f.Wait):
		case <-r.Context().Done(): // nobody waits for the answer
			return
		}
		cputime.Spend(int64(f.CPU))
	})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return (&http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}).Serve(listener)
}

// serveFunction serves the function that the environment defines, if any.
func serveFunction() error {
	text := os.Getenv(functionVar)
	if text == "" {
		return nil
	}
	var f Function
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		return err
	}
	return f.serve()
}
