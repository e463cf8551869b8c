package page

import (
	"context"
	"net/http"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
)

// None is the address of a page that is not served.
const None = "0"

// Pair starts the servers of metrics and of health, in a group, until ctx ends. Each has an address,
// or [None]. The process is ready when ready returns nil; it is alive at once.
func (p *Pages) Pair(ctx context.Context, all *errgroup.Group, config *rest.Config, metricsBind, probeBind string, metrics http.Handler, ready func(context.Context) error) error {
	add := func(address string, pages http.Handler) error {
		if address == None {
			return nil
		}
		s, err := p.Server(address, pages)
		if err == nil {
			all.Go(func() error { return s.Start(ctx) })
		}
		return err
	}
	guarded, err := p.Metrics(config, metrics)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", guarded)
	if err := add(metricsBind, mux); err != nil {
		return err
	}
	mux = http.NewServeMux()
	mux.Handle("GET /healthz", Health(func(context.Context) error { return nil }))
	mux.Handle("GET /readyz", Health(ready))
	return add(probeBind, mux)
}
