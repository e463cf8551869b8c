// Command sigma-mpa sizes workloads in a cluster: replicas and requests together. Its
// three parts run in one process or in several.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/golang/glog"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/sigma-scheduler/sigma/internal/serve/page"
	"github.com/sigma-scheduler/sigma/mpa/admission"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/recommender"
	"github.com/sigma-scheduler/sigma/mpa/updater"
)

// Parts of the program.
const (
	partRecommender = "recommender"
	partUpdater     = "updater"
	partAdmission   = "admission"
)

// none is an address that is not served.
const none = page.None

// version is set by the linker: -ldflags '-X main.version=…'.
var version string

func programVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && version == "" {
		return info.Main.Version
	}
	return version
}

type options struct {
	kubeconfig, metricsBind, probeBind, namespace string
	pages                                         page.Pages
	leaderElect                                   bool
	verbosity                                     int

	recommender recommender.Options
	updater     updater.Options
	admission   admission.Options
}

func main() { os.Exit(start()) }

func start() (code int) {
	// By default glog writes files; the libraries log with klog.
	_ = flag.Set("logtostderr", "true")
	defer glog.Flush()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		glog.Errorf("sigma-mpa: %v", err)
		return 1
	}
	return 0
}

func command() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "sigma-mpa",
		Short:         "Sizes workloads in a cluster: replicas and requests together",
		Version:       programVersion(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	for _, c := range []struct {
		use, short string
		parts      []string
	}{
		{partRecommender, "Decides, and writes the decisions to the objects' status", []string{partRecommender}},
		{partUpdater, "Carries the decisions out", []string{partUpdater}},
		{partAdmission, "Gives new pods their size", []string{partAdmission}},
		{"all", "All three in one process", []string{partRecommender, partUpdater, partAdmission}},
	} {
		o := &options{}
		sub := &cobra.Command{
			Use: c.use, Short: c.short, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				if err := o.complete(c.parts); err != nil {
					return err
				}
				return run(cmd.Context(), o, c.use, c.parts)
			},
		}
		o.addFlags(sub.Flags(), c.parts)
		cmd.AddCommand(sub)
	}
	return cmd
}

func (o *options) addFlags(flags *pflag.FlagSet, parts []string) {
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file; empty: the pod's service account")
	flags.StringVar(&o.metricsBind, "metrics-bind-address", ":8080", "address of /metrics, over HTTPS and for accounts with the right to it; 0: none")
	flags.StringVar(&o.probeBind, "health-probe-bind-address", ":8081", "address of /healthz and /readyz, over HTTPS; 0: none")
	o.pages.AddFlags(flags)
	flags.StringVar(&o.namespace, "namespace", "", "namespace of the lease and the webhook's Secret, whose objects are ignored; empty: the pod's")
	flags.IntVarP(&o.verbosity, "v", "v", 0, "verbosity of the log")
	if slices.Contains(parts, partRecommender) {
		o.recommender.AddFlags(flags)
	}
	if slices.Contains(parts, partUpdater) {
		o.updater.AddFlags(flags)
	}
	if len(parts) > 1 || parts[0] != partAdmission {
		flags.BoolVar(&o.leaderElect, "leader-elect", true, "only one of several such processes works; all of them answer the webhook")
	}
	if slices.Contains(parts, partAdmission) {
		o.admission.AddFlags(flags)
	}
}

// complete fills in defaults and returns the error of a flag.
func (o *options) complete(parts []string) error {
	if o.verbosity < 0 {
		return fmt.Errorf("--v %d: want 0 or more", o.verbosity)
	}
	for name, address := range map[string]string{"--metrics-bind-address": o.metricsBind, "--health-probe-bind-address": o.probeBind} {
		if address != none {
			if err := o.pages.Validate(name, address); err != nil {
				return err
			}
		}
	}
	check := map[string]func() error{
		partRecommender: o.recommender.Validate, partUpdater: o.updater.Validate, partAdmission: o.admission.Validate,
	}
	for _, part := range parts {
		if err := check[part](); err != nil {
			return err
		}
	}
	if o.namespace == "" {
		text, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
		if err != nil && (o.leaderElect || slices.Contains(parts, partAdmission)) {
			return fmt.Errorf("--namespace is empty, and this process is not in a pod: %w", err)
		}
		o.namespace = strings.TrimSpace(string(text))
	}
	o.recommender.Namespace, o.updater.Namespace, o.admission.Namespace = o.namespace, o.namespace, o.namespace
	return nil
}

// run runs the parts until ctx ends.
func run(ctx context.Context, o *options, name string, parts []string) error {
	var level klog.Level
	if err := level.Set(fmt.Sprint(o.verbosity)); err != nil {
		return err
	}
	ctrl.SetLogger(klog.Background())
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 50, 100
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	grace := 10 * time.Second
	m, err := ctrl.NewManager(rest.AddUserAgent(config, "sigma-mpa-"+name), ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: none}, HealthProbeBindAddress: none, // ours: addPages
		LeaderElection: o.leaderElect, LeaderElectionID: "sigma-mpa-" + name, LeaderElectionNamespace: o.namespace,
		LeaderElectionReleaseOnCancel: true, GracefulShutdownTimeout: &grace,
	})
	if err != nil {
		return err
	}
	if slices.Contains(parts, partRecommender) {
		if err := recommender.Setup(m, o.recommender); err != nil {
			return fmt.Errorf("recommender: %w", err)
		}
	}
	if slices.Contains(parts, partUpdater) {
		if err := updater.Setup(m, o.updater); err != nil {
			return fmt.Errorf("updater: %w", err)
		}
	}
	webhook := func() error { return nil }
	if slices.Contains(parts, partAdmission) {
		if webhook, err = admission.Setup(m, o.admission); err != nil {
			return fmt.Errorf("admission: %w", err)
		}
	}
	return o.start(ctx, m, webhook)
}

// start runs a manager next to metrics and health: its own server of health has no HTTPS,
// its server of metrics waits for ever for slow callers, and it starts other servers when
// its caches are filled, which takes longer than a liveness probe waits.
func (o *options) start(ctx context.Context, m manager.Manager, webhook func() error) error {
	all, ctx := errgroup.WithContext(ctx) // when one ends, all do
	err := o.pages.Pair(ctx, all, m.GetConfig(), o.metricsBind, o.probeBind, promhttp.HandlerFor(ctrlmetrics.Registry, promhttp.HandlerOpts{}), func(ctx context.Context) error {
		if !m.GetCache().WaitForCacheSync(ctx) {
			return errors.New("caches are not filled yet")
		}
		return webhook()
	})
	if err != nil {
		return err
	}
	all.Go(func() error { return m.Start(ctx) })
	return all.Wait()
}
