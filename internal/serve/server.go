// Package serve answers HTTPS calls of a cluster: with a bound on connections and on the
// time that each may take, and with /metrics for those whom the API server allows. It knows nothing of
// what is served.
package serve

import (
	"context"
	"crypto/tls"
	"errors"
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
	// Connections is how many are served at a time; further ones wait.
	Connections int
	// Patience is how long a caller may take to send a call. From its head on it
	// has three times as long until it has read the answer, and as long between two calls.
	Patience time.Duration
}

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
	// Of HTTP/2 a connection carries many calls at a time: their number would have no bound.
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	server := &http.Server{
		Handler: s.Handler, TLSConfig: s.TLS, Protocols: protocols, MaxHeaderBytes: 64 << 10,
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
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
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
