package cli

import (
	"context"
	"encoding/json"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/compare"
	"github.com/sigma-scheduler/sigma/internal/explain"
)

// explainFlags are the flags of explain.
type explainFlags struct {
	path, name, request, format string
	item                        int32
	repack                      bool
	options                     cerebro.Options
	choice                      policyFlags

	pod, policyName string
	logs            []string
	cluster         clusterFlags
}

func (a *app) explain() *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain --trace DIR --policy P --request R | --pod NAMESPACE/NAME",
		Short: "Say why an item or a pod went where it did, or why it was left out",
		Long: `With --trace, explain replays a trace up to an item of a request. It prints what
each constraint rejected, which machine the policy chose, which came second, and how
much each part of the score contributed. With the flags of a replay it explains that
replay.

A machine that does not take the item counts once, by the first of these that
forbids it: capacity (dimension by dimension), devices, type, limit, each rule,
spread.

With --pod, explain reads a cluster as "sigma snapshot" does and says where the pod
would go now. For a pod that waits it says why; a pod on a node is treated as if it
arrived now. The policy is the PlacementPolicy named by --policy-name, or the one given
by --policy; where the cluster has none, kube-scheduler's leastallocated. With --log,
explain takes the pod's latest decision from a scheduler's decision log, with the state
and the policy of that moment. A log of several files is given in order.

` + policiesHelp,
		Example: `  sigma explain --trace small-1 --policy learned --request r00003
  sigma explain --trace small-1 --policy bestfit --request r00003 --item 2 --order 1 --seed 7 --format json
  sigma explain --pod shop/web-7bfdcd89cf-77xgr
  sigma explain --pod shop/web-7bfdcd89cf-77xgr --policy bestfit
  sigma explain --pod shop/web-7bfdcd89cf-77xgr --log decisions.jsonl`,
		Args: moreFilesOf("log"),
		RunE: a.do(func(cmd *cobra.Command, more []string) error {
			f.logs = append(f.logs, more...)
			if cmd.Flags().Changed("pod") {
				return a.explainPod(cmd, &f)
			}
			for _, name := range []string{"log", "kubeconfig", "context", "policy-name"} {
				if cmd.Flags().Changed(name) {
					return usagef("--%s needs --pod", name)
				}
			}
			if err := required(cmd, "trace", "policy", "request"); err != nil {
				return err
			}
			return a.explainTo(cmd.Context(), f)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.path, "trace", "", "trace: a folder or a .tar.gz file")
	a.unpackedFlag(flags)
	flags.StringVar(&f.name, "policy", "", "placement policy: a name or a policy file")
	flags.StringVar(&f.request, "request", "", "request, as events.csv names it")
	flags.Int32Var(&f.item, "item", 0, "item of the request, from 0")
	flags.IntVar(&f.options.Order, "order", 0, "order of arrival: 0 = the file's, i = the i-th shuffle of --seed")
	flags.Uint64Var(&f.options.Seed, "seed", 1, "of shuffles and random ties")
	flags.BoolVar(&f.options.Retry, "retry", false, "try items that were left out again after each delete; explain shows the first try")
	flags.StringVar(&f.format, "format", "table", "table or json")
	flags.BoolVar(&f.repack, "repack", false, "place the items of placed.csv again")
	f.choice.add(flags)
	flags.StringVar(&f.pod, "pod", "", "pod of a cluster, as namespace/name")
	flags.StringVar(&f.policyName, "policy-name", "general", "PlacementPolicy of the cluster that explains --pod")
	flags.StringArrayVar(&f.logs, "log", nil, "decision log that holds the decision on --pod (repeatable: its files in order)")
	f.cluster.add(flags)
	return cmd
}

func (a *app) explainTo(ctx context.Context, f explainFlags) error {
	if err := oneOf("format", f.format, "table", "json"); err != nil {
		return err
	}
	if f.options.Order < 0 {
		return usagef("--order %d: want 0 (the file's) or a positive number", f.options.Order)
	}
	catalog, err := f.choice.catalog(f.options.Seed)
	if err != nil {
		return err
	}
	if err := checkPolicies(&catalog, f.name); err != nil {
		return err
	}
	t, err := a.loadTrace(f.path)
	if err != nil {
		return err
	}
	found, err := catalog.Find(f.name, t)
	if err != nil {
		return err
	}
	if f.name == compare.Current {
		return usagef("the policy %s decides nothing: it repeats past placements", compare.Current)
	}
	if f.repack {
		t = t.FromEmpty()
	}
	request := slices.IndexFunc(t.Requests, func(q trace.Request) bool { return q.Name == f.request })
	if request < 0 {
		return usagef("unknown request %q in trace %s%s", f.request, t.Name, explain.SimilarRequests(f.request, t.Requests))
	}
	if n := t.Requests[request].Count; f.item < 0 || f.item >= n {
		return usagef("request %q has the items 0 to %d, not %d", f.request, n-1, f.item)
	}
	f.options.Fallback = rule.Fallback{}
	var e *cerebro.Explanation
	err = until(ctx, func() (err error) {
		e, err = cerebro.NewReplayer(t).Explain(found.Policy, f.options, int32(request), f.item)
		return err
	})
	if err != nil {
		return err
	}
	return a.show(f.format, explain.OfItem(t, found, f.options, e))
}

// show prints a view for people or as JSON.
func (a *app) show(format string, view interface{ Print(out io.Writer) error }) error {
	if format == "json" {
		return a.json(view)
	}
	return view.Print(a.stdout)
}

// json prints a value, indented.
func (a *app) json(value any) error {
	e := json.NewEncoder(a.stdout)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(value)
}
