package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/internal/explain"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

type mpaExplainFlags struct {
	log, at, format, namespace string
	change                     bool
	cluster                    clusterFlags
}

func (a *app) mpaExplain() *cobra.Command {
	var f mpaExplainFlags
	cmd := &cobra.Command{
		Use:   "explain NAME | --log FILE",
		Short: "Show why a workload was sized, or left as it is",
		Long: `Explain shows one decision: what was observed, what the agent wanted and why,
which guards changed or held it, the action and its outcome. From a cluster it shows the
last decision in the status of a MultidimPodAutoscaler, from a journal any decision.`,
		Example: `  sigma mpa explain -n shop web
  sigma mpa explain --log journal/shop/web.jsonl --at 2026-03-02T08:15:00Z
  sigma mpa explain --log web-hpa-1.jsonl --change --format json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("want one name, not %s", strings.Join(args, " "))
			}
			return nil
		},
		RunE: a.do(func(cmd *cobra.Command, args []string) error {
			e, err := f.explanation(cmd, args)
			if err != nil {
				return err
			}
			if f.format == "json" {
				enc := json.NewEncoder(a.stdout)
				enc.SetIndent("", "  ")
				enc.SetEscapeHTML(false)
				return enc.Encode(e)
			}
			e.Print(a.stdout)
			return nil
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.log, "log", "", "journal to read instead of a cluster")
	flags.StringVar(&f.at, "at", "", "show the last decision up to this time, as 2026-03-02T08:15:00Z")
	flags.BoolVar(&f.change, "change", false, "show the last decision that changed something")
	flags.StringVar(&f.format, "format", "table", "table or json")
	flags.StringVarP(&f.namespace, "namespace", "n", "default", "namespace of the object")
	addAccess(flags, &f.cluster.access)
	return cmd
}

func (f *mpaExplainFlags) explanation(cmd *cobra.Command, args []string) (*explain.Sizing, error) {
	if err := oneOf("format", f.format, "table", "json"); err != nil {
		return nil, err
	}
	if f.log == "" {
		for _, name := range []string{"at", "change"} {
			if err := onlyWith(cmd, name, "log"); err != nil {
				return nil, err
			}
		}
		if len(args) == 0 {
			return nil, usagef("want the name of a MultidimPodAutoscaler, or --log FILE")
		}
		return f.fromCluster(cmd.Context(), args[0])
	}
	for _, name := range []string{"namespace", "kubeconfig", "context", "timeout"} {
		if cmd.Flags().Changed(name) {
			return nil, usagef("--%s does not go with --log", name)
		}
	}
	if len(args) > 0 {
		return nil, usagef("%s does not go with --log: a journal is of one object", args[0])
	}
	var last time.Time
	if f.at != "" {
		var err error
		if last, err = time.Parse(time.RFC3339, f.at); err != nil {
			return nil, usagef("--at %q: want a time like 2026-03-02T08:15:00Z", f.at)
		}
	}
	var e *explain.Sizing
	err := until(cmd.Context(), func() (err error) {
		e, err = explain.SizingLogged(f.log, last, f.change)
		return err
	})
	if err != nil {
		return nil, err // e may still be written to
	}
	return e, nil
}

// fromCluster explains the status of an object.
func (f *mpaExplainFlags) fromCluster(ctx context.Context, name string) (*explain.Sizing, error) {
	f.cluster.fleet = "open"
	client, err := f.cluster.connect()
	if err != nil {
		return nil, err
	}
	data, err := client.Raw(ctx, v1alpha1.SchemeGroupVersion, "multidimpodautoscalers", f.namespace, name)
	if err != nil {
		return nil, err
	}
	var o v1alpha1.MultidimPodAutoscaler
	if err := json.Unmarshal(data, &o); err != nil {
		return nil, fmt.Errorf("%s/%s: %w", f.namespace, name, err)
	}
	return explain.SizingInCluster(&o)
}
