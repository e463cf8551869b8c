// Command sigma-pilot renews the PlacementPolicy of a cluster: it trains on the scheduler's
// record, judges, promotes in steps, watches and rolls back, as a PolicyPilot defines.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/sigma-scheduler/sigma/cmd/internal/start"
	"github.com/sigma-scheduler/sigma/internal/serve/controllers"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/pilot/control"
)

// version is set by the linker: -ldflags '-X main.version=…'.
var version string

type options struct {
	controllers.Options
	control control.Options
}

func main() { os.Exit(start.Program(command())) }

func command() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use: "sigma-pilot", Short: "Renews the PlacementPolicy of a cluster, as a PolicyPilot says", Version: start.Version(version), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complete(); err != nil {
				return err
			}
			return run(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.control.History, "history", "", "folder with the decision logs that PolicyPilots name")
	flags.StringVar(&o.control.State, "state", "", "folder for trained policies, verdicts and checkpoints")
	o.AddFlags(flags, "the lease, of the pages and of Jobs", "only one of several such processes works")
	cmd.AddCommand(train())
	cmd.CompletionOptions.DisableDefaultCmd = true
	return cmd
}

// train is the command of a training's Job.
func train() *cobra.Command {
	var state, training string
	cmd := &cobra.Command{
		Use: "train", Short: "Carries out a training that sigma-pilot ordered", Args: cobra.NoArgs,
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
	if err := o.Complete(false); err != nil {
		return err
	}
	o.control.Namespace = o.Namespace
	return nil
}

// run steps the loops until ctx ends.
func run(ctx context.Context, o *options) error {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return o.Run(ctx, "sigma-pilot", scheme, func(ctx context.Context, m manager.Manager) (func() error, error) {
		return nil, control.Setup(ctx, m, o.control)
	})
}
