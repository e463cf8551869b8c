// Package serve answers HTTP calls with a bound on connections, on heads and bodies, and on the
// time that each may take. It has no knowledge of the calls, and no Kubernetes: its package page has that.
package serve

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
)

// A Server answers until it is stopped. A caller can hold up neither it nor a connection.
type Server struct {
	Address string // host:port or :port
	Handler http.Handler
	TLS     *tls.Config // nil = plain HTTP
	// Connections is how many are served at a time; further ones wait. The heads of all of
	// them together take at most a quarter of a MiB each.
	Connections int
	// Patience is how long a caller may take to send a call. From its head on it
	// has three times as long until it has read the answer, and as long between two calls.
	Patience time.Duration
	// Finish is how long calls that are under way have to end when the server does; 0 = 10 s.
	Finish time.Duration
}

// headBytes bounds the head of a call, to which net/http adds 4 KiB. Parsed, a head of many short fields
// takes twenty times as much: a quarter of a MiB.
const headBytes = 8 << 10

// NeedLeaderElection is false: every replica serves.
func (*Server) NeedLeaderElection() bool { return false }

// Start answers until ctx ends, and then finishes the calls that are under way.
func (s *Server) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Address)
	if err != nil {
		return err
	}
	return s.Serve(ctx, listener)
}

// Serve is Start with a listener, which it closes.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	if s.Connections <= 0 || s.Patience <= 0 {
		return errors.Join(fmt.Errorf("serve: %d connections, patience %v: want more than 0", s.Connections, s.Patience), listener.Close())
	}
	// Of HTTP/2 a connection carries many calls at a time: their number would have no bound.
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	server := &http.Server{
		Handler: s.Handler, TLSConfig: s.TLS, Protocols: protocols, MaxHeaderBytes: headBytes,
		// The shortest of them bounds the TLS handshake too.
		ReadHeaderTimeout: min(s.Patience, 5*time.Second), ReadTimeout: s.Patience, WriteTimeout: 3 * s.Patience, IdleTimeout: 3 * s.Patience,
	}
	listener = netutil.LimitListener(listener, s.Connections)
	failed := make(chan error, 1)
	go func() {
		if s.TLS != nil {
			failed <- server.ServeTLS(listener, "", "")
		} else {
			failed <- server.Serve(listener)
		}
	}()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), cmp.Or(s.Finish, 10*time.Second))
	defer cancel()
	err := server.Shutdown(finish)
	if err != nil {
		err = errors.Join(err, server.Close())
	}
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// Slowly passes calls on that have a time of their own until they are answered, in place of the
// server's. The others of that server keep its time.
func Slowly(most time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control, end := http.NewResponseController(w), time.Now().Add(most) //nolint:forbidigo // connections have deadlines
		// The server ends the context of a call too where the deadline of reading is over.
		if err := errors.Join(control.SetReadDeadline(end), control.SetWriteDeadline(end)); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Loopback reports whether only this machine reaches an address.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}
