package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sigma-scheduler/sigma/internal/serve"
	"github.com/sigma-scheduler/sigma/mpa/gate"
)

// Bounds of the admin and the metrics port. The heads of all their connections take 12 MiB of memory at
// most (see [serve.Server]), and [mostWaits] of those of the metrics port wait at /drain.
const (
	adminConnections   = 16
	metricsConnections = 32
	pagePatience       = 5 * time.Second
	// pageFinish is how long calls of these ports have to end after the last request: the pod waits for them.
	pageFinish = time.Second
)

// pages serves one of these ports until ctx ends. Nobody waits for a call that takes longer than that.
func pages(ctx context.Context, l net.Listener, handler http.Handler, connections int) error {
	s := &serve.Server{Handler: handler, Connections: connections, Patience: pagePatience, Finish: pageFinish}
	if err := s.Serve(ctx, l); ctx.Err() == nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// admin returns the pages of the admin port.
func admin(ctx context.Context, g *gate.Gate) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", g.Admin())
	mux.Handle("GET /window", waiting(ctx, gate.Longest, g.Admin()))
	return mux
}

// metricsPages returns the pages of the metrics port.
func (o *options) metricsPages(ctx context.Context, ready *atomic.Bool, measured ...prometheus.Collector) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(measured...)
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if !ready.Load() {
			http.Error(w, "it begins or ends", http.StatusServiceUnavailable)
			return
		}
		if !o.readyByTarget {
			return
		}
		if err := o.reached(r.Context()); err != nil {
			http.Error(w, fmt.Sprintf("%s: %v", o.target, err), http.StatusServiceUnavailable)
		}
	})
	mux.Handle("GET /drain", waiting(ctx, o.ending.most(), o.ending))
	return mux
}

// waiting passes on calls that take up to most to answer, but never longer than ctx.
func waiting(ctx context.Context, most time.Duration, next http.Handler) http.Handler {
	return serve.Slowly(most+pagePatience, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		until, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		next.ServeHTTP(w, r.WithContext(until))
	}))
}
