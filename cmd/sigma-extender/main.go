// Command sigma-extender answers kube-scheduler's extender calls, for schedulers
// that cannot be built with the plugin Sigma.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/golang/glog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/version" // version metric
	"k8s.io/klog/v2"

	"github.com/sigma-scheduler/sigma/cmd/internal/start"
	"github.com/sigma-scheduler/sigma/internal/serve"
	"github.com/sigma-scheduler/sigma/internal/serve/page"
	"github.com/sigma-scheduler/sigma/plugins/engine"
	"github.com/sigma-scheduler/sigma/plugins/extender"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

type options struct {
	kubeconfig, bind, metricsBind string
	expanderBind                  string // "" = no expander
	clientCA                      string
	pages                         page.Pages
	maxRequestBytes               int64
	assumeTTL                     time.Duration
	verbosity                     int
	engine                        engine.Options
}

// version is set by the linker: -ldflags '-X main.version=…'.
var version string

func main() { os.Exit(start.Program(command(&options{}))) }

func command(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "sigma-extender",
		Short:   "Answers kube-scheduler's extender calls by a placement policy",
		Version: start.Version(version),
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file; empty: the pod's service account")
	flags.StringVar(&o.bind, "bind-address", ":8443", "address of /filter and /prioritize; beyond loopback it needs --tls-cert-file and --client-ca-file")
	flags.StringVar(&o.expanderBind, "expander-bind-address", "", "address of the expander of cluster-autoscaler, which is then served in place of /filter and /prioritize; it needs --tls-cert-file")
	flags.StringVar(&o.metricsBind, "metrics-bind-address", ":8080", "address of /metrics, for accounts with the right to it, and of /healthz and /readyz, over HTTPS")
	o.pages.AddFlags(flags)
	flags.StringVar(&o.clientCA, "client-ca-file", "", "authority of the callers' certificates")
	flags.Int64Var(&o.maxRequestBytes, "max-request-bytes", 4<<20, "largest request")
	flags.DurationVar(&o.assumeTTL, "assume-ttl", 30*time.Second, "how long a pod is assumed to be on its node before the cluster shows it there")
	flags.IntVarP(&o.verbosity, "v", "v", 0, "verbosity of the log")
	addEngineFlags(flags, &o.engine)
	return cmd
}

func addEngineFlags(flags *pflag.FlagSet, o *engine.Options) {
	flags.StringVar(&o.PolicyName, "policy-name", "general", "PlacementPolicy that decides")
	flags.StringVar(&o.CanaryName, "canary-policy-name", "", "PlacementPolicy that decides for a share of the workloads")
	flags.StringVar(&o.AppLabel, "app-label", "", "label whose value is a pod's app; empty: the app is the pod's topmost controller")
	flags.StringVar(&o.Fleet, "fleet", "open", "open: empty nodes stay empty as long as possible; fixed: all nodes are candidates")
	flags.StringVar(&o.Prices, "prices", "", "CSV of what nodes cost an hour, as that of sigma snapshot --prices")
	flags.StringVar(&o.DecisionLog, "decision-log", "", "file to append decisions to")
	o.DecisionLogBytes = 256 << 20
	flags.Var((*bytesValue)(&o.DecisionLogBytes), "decision-log-bytes", "size at which the decision log is kept aside and begins in another file; 0: never")
	flags.IntVar(&o.DecisionLogFiles, "decision-log-files", 8, "former files of the decision log that are kept; 0: all")
	flags.DurationVar(&o.Deadline, "deadline", 0, "how long one pod's scores may take before Best-Fit decides; 0: no limit")
	flags.DurationVar(&o.ForecastAge, "forecast-max-age", 5*time.Minute, "age at which a forecast is stale and Best-Fit decides")
}

func (o *options) validate() error {
	switch {
	case o.engine.PolicyName == "":
		return errors.New("--policy-name is empty")
	case o.engine.CanaryName == o.engine.PolicyName:
		return fmt.Errorf("--canary-policy-name %q is the --policy-name too", o.engine.CanaryName)
	case o.engine.Fleet != "open" && o.engine.Fleet != "fixed":
		return fmt.Errorf("--fleet %q: want open or fixed", o.engine.Fleet)
	case o.engine.Deadline < 0:
		return fmt.Errorf("--deadline %v: want 0 or more", o.engine.Deadline)
	case o.engine.ForecastAge <= 0:
		return fmt.Errorf("--forecast-max-age %v: want more than 0", o.engine.ForecastAge)
	case o.engine.DecisionLogBytes != 0 && o.engine.DecisionLogBytes < 64<<10:
		return fmt.Errorf("--decision-log-bytes %d: want at least 64Ki, or 0: no limit", o.engine.DecisionLogBytes)
	case o.engine.DecisionLogFiles < 0:
		return fmt.Errorf("--decision-log-files %d: want 0 or more", o.engine.DecisionLogFiles)
	case o.assumeTTL <= 0:
		return fmt.Errorf("--assume-ttl %v: want more than 0", o.assumeTTL)
	case o.maxRequestBytes <= 0:
		return fmt.Errorf("--max-request-bytes %d: want more than 0", o.maxRequestBytes)
	case o.expanderBind != "" && (o.pages.CertFile == "" || o.clientCA != ""):
		return errors.New("--expander-bind-address: want --tls-cert-file and no --client-ca-file: cluster-autoscaler calls over TLS alone, and has no certificate of its own")
	case o.expanderBind != "":
	case o.clientCA != "" && o.pages.CertFile == "":
		return errors.New("--client-ca-file needs --tls-cert-file")
	case o.pages.CertFile == "" && !serve.Loopback(o.bind):
		return fmt.Errorf("--bind-address %s without --tls-cert-file: only a loopback address is served in plain HTTP", o.bind)
	case o.clientCA == "" && !serve.Loopback(o.bind):
		return fmt.Errorf("--bind-address %s without --client-ca-file: beyond loopback only callers with a certificate are served", o.bind)
	}
	return o.pages.Validate("--metrics-bind-address", o.metricsBind)
}

// run serves until ctx ends.
func run(ctx context.Context, o *options) error {
	if err := o.validate(); err != nil {
		return err
	}
	var level klog.Level
	if err := level.Set(fmt.Sprint(o.verbosity)); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 50, 100
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(config, "sigma-extender"))
	if err != nil {
		return err
	}
	if o.expanderBind != "" {
		return expand(ctx, o, config, client)
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return err
	}
	defer broadcaster.Shutdown()
	o.engine.Profile, o.engine.Top = "extender", extender.Levels
	o.engine.Recorder = broadcaster.NewRecorder(scheme.Scheme, "sigma-extender")
	var e *engine.Engine
	o.engine.Leads = func() bool { return e.Decides() } // an extender of a scheduler that waits for the lead is not called
	e, err = engine.New(o.engine)
	if err != nil {
		return err
	}
	defer func() {
		if err := e.Close(); err != nil {
			glog.Errorf("cannot close the decision log: %v", err)
		}
	}()
	return follow(ctx, o, e, config, client, func(ctx context.Context, s *extender.Server) error {
		calls := &serve.Server{Address: o.bind, Handler: s.Handler(), Connections: 128, Patience: 10 * time.Second}
		var err error
		if calls.TLS, err = tlsConfig(o); err != nil {
			return err
		}
		return calls.Start(ctx)
	})
}

// follow keeps the engine up to date with the cluster and serves calls, health and metrics, until ctx ends.
func follow(ctx context.Context, o *options, e *engine.Engine, config *rest.Config, client kubernetes.Interface, calls func(context.Context, *extender.Server) error) error {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(podspec.Slim))
	var read atomic.Bool
	waiting := func() error {
		if !read.Load() {
			return fmt.Errorf("policies, rules and workloads are not read yet from the API server %s", config.Host)
		}
		return nil
	}
	server, err := extender.New(extender.Options{Engine: e, AssumeTTL: o.assumeTTL, MaxRequestBytes: o.maxRequestBytes, Waiting: waiting}, factory)
	if err != nil {
		return err
	}
	pages, err := pagesOf(o, server, config)
	if err != nil {
		return err
	}
	e.CompareWith(ctx, factory, server.Refresh)
	all, ctx := errgroup.WithContext(ctx) // when one cannot go on, all end
	all.Go(func() error {                 // calls meanwhile are answered with the reason to wait
		e.Follow(ctx, factory)
		_, err := e.Watch(ctx, config)
		read.Store(err == nil)
		return err
	})
	all.Go(func() error { return calls(ctx, server) })
	all.Go(func() error { return pages.Start(ctx) })
	glog.Infof("answering on %s, metrics on %s", cmp.Or(o.expanderBind, o.bind), o.metricsBind)
	go tellWaiting(ctx, tellEvery, server.Ready)
	return all.Wait()
}

// tellEvery is the period at which the log names the data that a start still
// waits for.
const tellEvery = 5 * time.Second

// tellWaiting logs the missing data until it is complete, or ctx ends.
func tellWaiting(ctx context.Context, every time.Duration, ready func() error) {
	_ = wait.PollUntilContextCancel(ctx, every, false, func(context.Context) (bool, error) {
		err := ready()
		if err != nil {
			glog.Warningf("calls are refused as unavailable: %v", err)
		}
		return err == nil, nil
	})
}

// pagesOf returns the server of health and metrics.
func pagesOf(o *options, s *extender.Server, config *rest.Config) (*serve.Server, error) {
	metrics, err := o.pages.Metrics(config, legacyregistry.Handler())
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.Handle("GET /healthz", page.Health(func(context.Context) error { return nil }))
	mux.Handle("GET /readyz", page.Health(func(context.Context) error { return s.Ready() }))
	return o.pages.Server(o.metricsBind, mux)
}
