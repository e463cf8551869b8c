// Command sigma-pilot renews the PlacementPolicy of a cluster: it trains on the scheduler's
// record, judges, promotes in steps, watches and rolls back, as a PolicyPilot defines.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/golang/glog"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/sigma-scheduler/sigma/internal/serve/page"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/pilot/control"
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
	control                                       control.Options
}

func main() { os.Exit(start()) }

func start() (code int) {
	// By default glog writes files; the libraries log with klog.
	_ = flag.Set("logtostderr", "true")
	defer glog.Flush()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		glog.Errorf("sigma-pilot: %v", err)
		return 1
	}
	return 0
}

func command() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use: "sigma-pilot", Short: "Renews the PlacementPolicy of a cluster, as a PolicyPilot says", Version: programVersion(),
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complete(); err != nil {
				return err
			}
			return run(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file; empty: the pod's service account")
	flags.StringVar(&o.control.History, "history", "", "folder with the decision logs that PolicyPilots name")
	flags.StringVar(&o.control.State, "state", "", "folder for trained policies, verdicts and checkpoints")
	flags.StringVar(&o.metricsBind, "metrics-bind-address", ":8080", "address of /metrics, over HTTPS and for accounts with the right to it; 0: none")
	flags.StringVar(&o.probeBind, "health-probe-bind-address", ":8081", "address of /healthz and /readyz, over HTTPS; 0: none")
	o.pages.AddFlags(flags)
	flags.StringVar(&o.namespace, "namespace", "", "namespace of the lease, of the pages and of Jobs; empty: the pod's")
	flags.BoolVar(&o.leaderElect, "leader-elect", true, "only one of several such processes works")
	flags.IntVarP(&o.verbosity, "v", "v", 0, "verbosity of the log")
	cmd.AddCommand(train())
	cmd.CompletionOptions.DisableDefaultCmd = true
	return cmd
}

// train is the command of a training's Job.
func train() *cobra.Command {
	var state, training string
	cmd := &cobra.Command{
		Use: "train", Short: "Carries out a training that sigma-pilot ordered", Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if state == "" {
				return errors.New("--state is missing: a folder")
			}
			return control.Learn(cmd.Context(), state, training)
		},
	}
	cmd.Flags().StringVar(&state, "state", "", "folder of sigma-pilot")
	cmd.Flags().StringVar(&training, "training", "", "FOLDER/TRAINING, the order below it")
	return cmd
}

// complete fills in defaults and returns the error of a flag.
func (o *options) complete() error {
	if o.verbosity < 0 {
		return fmt.Errorf("--v %d: want 0 or more", o.verbosity)
	}
	for name, dir := range map[string]string{"--history": o.control.History, "--state": o.control.State} {
		if dir == "" {
			return fmt.Errorf("%s is missing: a folder", name)
		}
		if info, err := os.Stat(dir); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		} else if !info.IsDir() {
			return fmt.Errorf("%s %s: want a folder", name, dir)
		}
	}
	for name, address := range map[string]string{"--metrics-bind-address": o.metricsBind, "--health-probe-bind-address": o.probeBind} {
		if address != none {
			if err := o.pages.Validate(name, address); err != nil {
				return err
			}
		}
	}
	if o.namespace == "" {
		text, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
		if err != nil && o.leaderElect {
			return fmt.Errorf("--namespace is empty, and this process is not in a pod: %w", err)
		}
		o.namespace = strings.TrimSpace(string(text))
	}
	o.control.Namespace = o.namespace
	return nil
}

// run steps the loops until ctx ends.
func run(ctx context.Context, o *options) error {
	var level klog.Level
	if err := level.Set(fmt.Sprint(o.verbosity)); err != nil {
		return err
	}
	ctrl.SetLogger(klog.Background())
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	grace := 10 * time.Second
	m, err := ctrl.NewManager(rest.AddUserAgent(config, "sigma-pilot"), ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: none}, HealthProbeBindAddress: none, // ours: below
		LeaderElection: o.leaderElect, LeaderElectionID: "sigma-pilot", LeaderElectionNamespace: o.namespace,
		LeaderElectionReleaseOnCancel: true, GracefulShutdownTimeout: &grace,
	})
	if err != nil {
		return err
	}
	all, ctx := errgroup.WithContext(ctx) // when one ends, all do
	if err := control.Setup(ctx, m, o.control); err != nil {
		return err
	}
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
