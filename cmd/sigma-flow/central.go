package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/sigma-scheduler/sigma/flow/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/flow/central"
	"github.com/sigma-scheduler/sigma/flow/tune"
	"github.com/sigma-scheduler/sigma/internal/serve/page"
)

type centralOptions struct {
	kubeconfig, namespace, metricsBind, probeBind string
	every                                         time.Duration
	leaderElect                                   bool
	pages                                         page.Pages
}

func centralCommand() *cobra.Command {
	o := &centralOptions{}
	cmd := &cobra.Command{
		Use:   "central",
		Short: "Find the thresholds of FlowPolicies from what the nodes see",
		Long: `Central reads what the agents of all nodes write to their NodeFlows, finds thresholds for each
FlowPolicy that names none, and writes them to its status with a sequence number, with how many
nodes follow. It needs no capability. Of several such processes one works. While none does,
nodes go on by the last thresholds.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file; empty: the pod's service account")
	flags.StringVar(&o.namespace, "namespace", "", "namespace of the lease; empty: the pod's")
	flags.DurationVar(&o.every, "every", time.Minute, "between two searches for the thresholds of a policy")
	flags.StringVar(&o.metricsBind, "metrics-bind-address", ":8080", "address of /metrics, over HTTPS and for accounts with the right to it; 0: none")
	flags.StringVar(&o.probeBind, "health-probe-bind-address", ":8081", "address of /healthz and /readyz, over HTTPS; 0: none")
	flags.BoolVar(&o.leaderElect, "leader-elect", true, "only one of several such processes works")
	o.pages.AddFlags(flags)
	return cmd
}

func (o *centralOptions) check() error {
	if o.every < time.Second {
		return fmt.Errorf("--every %v: want at least 1s", o.every)
	}
	for name, address := range map[string]string{"--metrics-bind-address": o.metricsBind, "--health-probe-bind-address": o.probeBind} {
		if address != page.None {
			if err := o.pages.Validate(name, address); err != nil {
				return err
			}
		}
	}
	if o.namespace == "" && o.leaderElect {
		text, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
		if err != nil {
			return fmt.Errorf("--namespace is empty, and this process is not in a pod: %w", err)
		}
		o.namespace = strings.TrimSpace(string(text))
	}
	return nil
}

// run works until ctx ends, or until it leads no more.
func (o *centralOptions) run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	ctrl.SetLogger(klog.Background())
	config, err := clusterConfig(o.kubeconfig)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	grace := 10 * time.Second
	m, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: page.None}, HealthProbeBindAddress: page.None, // ours: below
		LeaderElection: o.leaderElect, LeaderElectionID: "sigma-flow-central", LeaderElectionNamespace: o.namespace,
		LeaderElectionReleaseOnCancel: true, GracefulShutdownTimeout: &grace,
	})
	if err != nil {
		return err
	}
	sketches := newSketches()
	ctrlmetrics.Registry.MustRegister(sketches)
	if err := (&central.Runner{Every: o.every, Tuner: tune.Tuner{}, Now: time.Now, Sketches: sketches}).Setup(ctx, m); err != nil {
		return err
	}
	all, ctx := errgroup.WithContext(ctx) // when one ends, all do
	err = o.pages.Pair(ctx, all, m.GetConfig(), o.metricsBind, o.probeBind, promhttp.HandlerFor(ctrlmetrics.Registry, promhttp.HandlerOpts{}), func(ctx context.Context) error {
		if !m.GetCache().WaitForCacheSync(ctx) {
			return errors.New("caches are not filled yet")
		}
		return nil
	})
	if err != nil {
		return err
	}
	all.Go(func() error { return m.Start(ctx) })
	return all.Wait()
}

func newSketches() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sigma_flow_sketches_total", Help: "Sketches of sizes that nodes wrote, by what became of them.",
	}, []string{"verdict"})
}
