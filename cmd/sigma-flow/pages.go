package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/golang/glog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sigma-scheduler/sigma/internal/serve/page"
)

// serve answers until ctx ends.
func (a *agent) serve(ctx context.Context) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(&collector{a}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	var config *rest.Config
	if !a.pages.Plain {
		var err error
		if config, err = clientcmd.BuildConfigFromFlags("", a.kubeconfig); err != nil {
			return err
		}
	}
	mux := http.NewServeMux()
	for path, answer := range map[string]http.Handler{
		"GET /metrics": promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
		"GET /report":  http.HandlerFunc(a.answer),
	} {
		guarded, err := a.pages.Metrics(config, answer)
		if err != nil {
			return err
		}
		mux.Handle(path, guarded)
	}
	mux.Handle("GET /healthz", page.Health(func(context.Context) error { return nil }))
	mux.Handle("GET /readyz", page.Health(func(context.Context) error {
		if a.last.Load() == nil {
			return errors.New("it has not reported yet")
		}
		return nil
	}))
	server, err := a.pages.Server(a.bind, mux)
	if err != nil {
		return err
	}
	return server.Start(ctx)
}

func (a *agent) answer(w http.ResponseWriter, _ *http.Request) {
	r := a.last.Load()
	if r == nil {
		http.Error(w, "it has not reported yet", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(r); err != nil {
		glog.Warningf("/report: %v", err)
	}
}
