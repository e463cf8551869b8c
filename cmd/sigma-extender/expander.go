package main

import (
	"context"
	"net"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sigma-scheduler/sigma/plugins/engine"
	"github.com/sigma-scheduler/sigma/plugins/expander"
	"github.com/sigma-scheduler/sigma/plugins/extender"
	"github.com/sigma-scheduler/sigma/plugins/kube"
)

// expand answers cluster-autoscaler until ctx ends. It writes nothing to the cluster.
func expand(ctx context.Context, o *options, config *rest.Config, client kubernetes.Interface) error {
	o.engine.Profile, o.engine.ReadOnly = "expander", true
	e, err := engine.New(o.engine)
	if err != nil {
		return err
	}
	defer func() { _ = e.Close() }()
	prices, err := kube.ReadPrices(o.engine.Prices)
	if err != nil {
		return err
	}
	return follow(ctx, o, e, config, client, func(ctx context.Context, s *extender.Server) error {
		certificate, err := tlsConfig(o)
		if err != nil {
			return err
		}
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.expanderBind)
		if err != nil {
			return err
		}
		x := expander.New(expander.Options{Try: e.Try, Ready: s.Ready, Refresh: s.Refresh, Prices: prices.WithList()})
		return x.Serve(ctx, listener, certificate)
	})
}
