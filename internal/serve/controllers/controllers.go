// Package controllers runs controllers as a program: flags, client, lease, metrics and health.
package controllers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/sigma-scheduler/sigma/internal/serve/page"
)

// Options are the flags that all such programs have.
type Options struct {
	Kubeconfig, Namespace  string
	MetricsBind, ProbeBind string // addresses, or [page.None]
	Pages                  page.Pages
	LeaderElect            bool
	Verbosity              int
}

// AddFlags adds flags for all fields. namespace names the objects in the namespace; elects = "" is a program that
// elects no leader.
func (o *Options) AddFlags(flags *pflag.FlagSet, namespace, elects string) {
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig file; empty: the pod's service account")
	flags.StringVar(&o.MetricsBind, "metrics-bind-address", ":8080", "address of /metrics, over HTTPS and for accounts with the right to it; 0: none")
	flags.StringVar(&o.ProbeBind, "health-probe-bind-address", ":8081", "address of /healthz and /readyz, over HTTPS; 0: none")
	o.Pages.AddFlags(flags)
	flags.StringVar(&o.Namespace, "namespace", "", "namespace of "+namespace+"; empty: the pod's")
	flags.IntVarP(&o.Verbosity, "v", "v", 0, "verbosity of the log")
	if elects != "" {
		flags.BoolVar(&o.LeaderElect, "leader-elect", true, elects)
	}
}

// Complete fills in the pod's namespace and returns the error of a flag. With a lease, or where needsNamespace is true,
// it is an error that there is no namespace.
func (o *Options) Complete(needsNamespace bool) error {
	if o.Verbosity < 0 {
		return fmt.Errorf("--v %d: want 0 or more", o.Verbosity)
	}
	for name, address := range map[string]string{"--metrics-bind-address": o.MetricsBind, "--health-probe-bind-address": o.ProbeBind} {
		if address != page.None {
			if err := o.Pages.Validate(name, address); err != nil {
				return err
			}
		}
	}
	if o.Namespace == "" {
		text, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
		if err != nil && (o.LeaderElect || needsNamespace) {
			return fmt.Errorf("--namespace is empty, and this process is not in a pod: %w", err)
		}
		o.Namespace = strings.TrimSpace(string(text))
	}
	return nil
}

// A Setup adds controllers to a manager. The program is ready when ready, which may be nil, returns nil.
type Setup func(ctx context.Context, m manager.Manager) (ready func() error, err error)

// Run runs controllers until ctx ends, or the lease is lost. The lease has the program's name.
func (o *Options) Run(ctx context.Context, name string, scheme *runtime.Scheme, setup Setup) error {
	var level klog.Level
	if err := level.Set(fmt.Sprint(o.Verbosity)); err != nil {
		return err
	}
	ctrl.SetLogger(klog.Background())
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 50, 100
	grace := 10 * time.Second
	m, err := ctrl.NewManager(rest.AddUserAgent(config, name), ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: page.None}, HealthProbeBindAddress: page.None, // ours: start
		LeaderElection: o.LeaderElect, LeaderElectionID: name, LeaderElectionNamespace: o.Namespace,
		LeaderElectionReleaseOnCancel: true, GracefulShutdownTimeout: &grace,
	})
	if err != nil {
		return err
	}
	all, ctx := errgroup.WithContext(ctx) // when one ends, all do
	ready, err := setup(ctx, m)
	if err != nil {
		return err
	}
	return o.start(ctx, all, m, ready)
}

// start runs a manager next to metrics and health: its own server of health has no HTTPS,
// its server of metrics waits for ever for slow callers, and it starts other servers when
// its caches are filled, which takes longer than a liveness probe waits.
func (o *Options) start(ctx context.Context, all *errgroup.Group, m manager.Manager, ready func() error) error {
	err := o.Pages.Pair(ctx, all, m.GetConfig(), o.MetricsBind, o.ProbeBind, promhttp.HandlerFor(ctrlmetrics.Registry, promhttp.HandlerOpts{}), func(ctx context.Context) error {
		if !m.GetCache().WaitForCacheSync(ctx) {
			return errors.New("caches are not filled yet")
		}
		if ready == nil {
			return nil
		}
		return ready()
	})
	if err != nil {
		return err
	}
	all.Go(func() error { return m.Start(ctx) })
	return all.Wait()
}
