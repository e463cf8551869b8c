// Command sigma-mpa sizes workloads in a cluster: replicas and requests together. Its
// three parts run in one process or in several; a fourth offers cpu that online pods leave to batch pods.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/sigma-scheduler/sigma/cmd/internal/start"
	"github.com/sigma-scheduler/sigma/internal/serve/controllers"
	"github.com/sigma-scheduler/sigma/mpa/admission"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/batch"
	"github.com/sigma-scheduler/sigma/mpa/recommender"
	"github.com/sigma-scheduler/sigma/mpa/updater"
)

// Parts of the program.
const (
	partRecommender = "recommender"
	partUpdater     = "updater"
	partAdmission   = "admission"
	partBatch       = "batch"
)

// version is set by the linker: -ldflags '-X main.version=…'.
var version string

type options struct {
	controllers.Options

	recommender recommender.Options
	updater     updater.Options
	admission   admission.Options
	batch       batch.Options
}

func main() { os.Exit(start.Program(command())) }

func command() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "sigma-mpa",
		Short:   "Sizes workloads in a cluster: replicas and requests together",
		Version: start.Version(version),
	}
	for _, c := range []struct {
		use, short string
		parts      []string
	}{
		{partRecommender, "Decides, and writes the decisions to the objects' status", []string{partRecommender}},
		{partUpdater, "Carries the decisions out", []string{partUpdater}},
		{partAdmission, "Gives new pods their size", []string{partAdmission}},
		{partBatch, "Offers batch pods the cpu and memory that online pods leave", []string{partBatch}},
		{"all", "The first three in one process", []string{partRecommender, partUpdater, partAdmission}},
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
	elects := ""
	if len(parts) > 1 || parts[0] != partAdmission {
		elects = "only one of several such processes works; all of them answer the webhook"
	}
	o.AddFlags(flags, "the lease and the webhook's Secret, whose objects are ignored", elects)
	if slices.Contains(parts, partRecommender) {
		o.recommender.AddFlags(flags)
	}
	if slices.Contains(parts, partUpdater) {
		o.updater.AddFlags(flags)
	}
	if slices.Contains(parts, partAdmission) {
		o.admission.AddFlags(flags)
	}
	if slices.Contains(parts, partBatch) {
		o.batch.AddFlags(flags)
	}
}

// complete fills in defaults and returns the error of a flag.
func (o *options) complete(parts []string) error {
	check := map[string]func() error{
		partRecommender: o.recommender.Validate, partUpdater: o.updater.Validate, partAdmission: o.admission.Validate,
		partBatch: o.batch.Validate,
	}
	for _, part := range parts {
		if err := check[part](); err != nil {
			return err
		}
	}
	if err := o.Complete(slices.Contains(parts, partAdmission)); err != nil {
		return err
	}
	o.recommender.Namespace, o.updater.Namespace, o.admission.Namespace = o.Namespace, o.Namespace, o.Namespace
	return nil
}

// run runs the parts until ctx ends.
func run(ctx context.Context, o *options, name string, parts []string) error {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return o.Run(ctx, "sigma-mpa-"+name, scheme, func(_ context.Context, m manager.Manager) (webhook func() error, err error) {
		if slices.Contains(parts, partRecommender) {
			if err := recommender.Setup(m, o.recommender); err != nil {
				return nil, fmt.Errorf("recommender: %w", err)
			}
		}
		if slices.Contains(parts, partUpdater) {
			if err := updater.Setup(m, o.updater); err != nil {
				return nil, fmt.Errorf("updater: %w", err)
			}
		}
		if slices.Contains(parts, partAdmission) {
			if webhook, err = admission.Setup(m, o.admission); err != nil {
				return nil, fmt.Errorf("admission: %w", err)
			}
		}
		if slices.Contains(parts, partBatch) {
			if err := batch.Setup(m, o.batch); err != nil {
				return nil, fmt.Errorf("batch: %w", err)
			}
		}
		return webhook, nil
	})
}
