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
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sigma-scheduler/sigma/internal/serve"
)

// underTest is the server under test: an ordinary net/http server whose handler waits
// and computes for the requested times. It prints its address and GOMAXPROCS and ends with its stdin.
func underTest() error {
	Calibrate()
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
		Compute(cpu)
	})
	mux.HandleFunc("GET /spent", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(cpuNanos(unix.CLOCK_PROCESS_CPUTIME_ID))
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

// chunk is a number of turns that takes about chunkNanos of a free core.
var (
	chunk      = 1000
	chunkNanos int64
	sink       atomic.Uint64
)

// Calibrate measures what a chunk takes; call it once before [Compute].
func Calibrate() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		least := int64(1 << 62)
		for range 50 {
			begin := cpuNanos(unix.CLOCK_THREAD_CPUTIME_ID)
			turn(chunk)
			least = min(least, cpuNanos(unix.CLOCK_THREAD_CPUTIME_ID)-begin)
		}
		if chunkNanos = least; least > 15_000 {
			return
		}
		chunk *= 2
	}
}

// Compute computes until it has spent nanoseconds of cpu by the clock of its thread,
// which is the one that the quota is charged by: a core that a neighbour slows down
// makes the request no cheaper for the quota. A chunk between whose ends the
// goroutine was moved to another thread counts as a usual one.
func Compute(nanos int64) {
	begin := cpuNanos(unix.CLOCK_THREAD_CPUTIME_ID)
	for nanos > 0 {
		n := chunk
		if nanos < chunkNanos {
			n = int(int64(chunk) * nanos / chunkNanos)
		}
		turn(n)
		end := cpuNanos(unix.CLOCK_THREAD_CPUTIME_ID)
		spent := end - begin
		if begin = end; spent <= 0 || spent > 5*chunkNanos {
			spent = chunkNanos * int64(n) / int64(chunk)
		}
		nanos -= max(1, spent)
	}
}

//go:noinline
func turn(n int) {
	x := uint64(n) | 1
	for range n {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	sink.Store(x)
}

// cpuNanos reads a clock by a raw system call: the Go scheduler does not notice it, so
// no other goroutine runs at this point.
func cpuNanos(clock uintptr) int64 {
	var ts unix.Timespec
	_, _, _ = unix.RawSyscall(unix.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}
