// Package page serves a program's metrics and health over HTTPS: with a certificate, and with /metrics
// for those whom the API server allows.
package page

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/sigma-scheduler/sigma/internal/serve"
)

// Pages is how a program serves its metrics and its health.
type Pages struct {
	CertFile, KeyFile string // empty = a certificate of its own making
	// Plain serves loopback addresses in plain HTTP, and metrics to everybody there.
	Plain bool
}

// AddFlags adds flags for all fields.
func (p *Pages) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&p.CertFile, "tls-cert-file", "", "certificate, read again when it changes; empty: one of its own making, for metrics and health only")
	flags.StringVar(&p.KeyFile, "tls-private-key-file", "", "key of the certificate")
	flags.BoolVar(&p.Plain, "metrics-plain-http", false, "serve metrics and health in plain HTTP and ask nobody for a token; for loopback addresses only")
}

// Validate returns the error of the pages at an address, by flag.
func (p *Pages) Validate(flag, address string) error {
	switch _, _, err := net.SplitHostPort(address); {
	case err != nil:
		return fmt.Errorf("%s %q: want host:port or :port", flag, address)
	case (p.CertFile == "") != (p.KeyFile == ""):
		return errors.New("--tls-cert-file and --tls-private-key-file need each other")
	case p.Plain && !serve.Loopback(address):
		return fmt.Errorf("%s %s with --metrics-plain-http: only a loopback address is served in plain HTTP", flag, address)
	}
	return nil
}

// Server serves pages at an address.
func (p *Pages) Server(address string, pages http.Handler) (*serve.Server, error) {
	s := &serve.Server{Address: address, Handler: pages, Connections: 100, Patience: 10 * time.Second}
	if p.Plain {
		return s, nil
	}
	var err error
	s.TLS, err = TLS(p.CertFile, p.KeyFile)
	return s, err
}

// Metrics is a page for those whom the API server allows to read it; see [Authorized].
func (p *Pages) Metrics(config *rest.Config, page http.Handler) (http.Handler, error) {
	if p.Plain {
		return page, nil
	}
	return Authorized(config, page)
}

// Health answers ok or not ok to anybody; the reason is only logged.
func Health(check func(context.Context) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := check(r.Context()); err != nil {
			klog.FromContext(r.Context()).Info("Not ok", "path", r.URL.Path, "why", err.Error())
			http.Error(w, "not ok", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok"))
	})
}
