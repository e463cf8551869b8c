package main

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/sigma-scheduler/sigma/flow/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/flow/central"
	"github.com/sigma-scheduler/sigma/flow/tune"
	"github.com/sigma-scheduler/sigma/internal/serve/controllers"
)

type centralOptions struct {
	controllers.Options
	every time.Duration
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
	o.AddFlags(flags, "the lease", "only one of several such processes works")
	flags.DurationVar(&o.every, "every", time.Minute, "between two searches for the thresholds of a policy")
	return cmd
}

func (o *centralOptions) check() error {
	if o.every < time.Second {
		return fmt.Errorf("--every %v: want at least 1s", o.every)
	}
	return o.Complete(false)
}

// run works until ctx ends, or until it leads no more.
func (o *centralOptions) run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return o.Run(ctx, "sigma-flow-central", scheme, func(ctx context.Context, m manager.Manager) (func() error, error) {
		sketches := newSketches()
		ctrlmetrics.Registry.MustRegister(sketches)
		return nil, (&central.Runner{Every: o.every, Tuner: tune.Tuner{}, Now: time.Now, Sketches: sketches}).Setup(ctx, m)
	})
}

func newSketches() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sigma_flow_sketches_total", Help: "Sketches of sizes that nodes wrote, by what became of them.",
	}, []string{"verdict"})
}
