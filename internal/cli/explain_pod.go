package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/internal/compare"
	"github.com/sigma-scheduler/sigma/internal/explain"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/snapshot"
)

func (a *app) explainPod(cmd *cobra.Command, f *explainFlags) error {
	for _, name := range []string{"trace", "request", "item", "order", "retry", "repack", "max-unpacked"} {
		if cmd.Flags().Changed(name) {
			return usagef("--%s does not go with --pod", name)
		}
	}
	if namespace, name, ok := strings.Cut(f.pod, "/"); !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return usagef("--pod %q: want namespace/name", f.pod)
	}
	if err := oneOf("format", f.format, "table", "json"); err != nil {
		return err
	}
	catalog, err := f.choice.catalog(f.options.Seed)
	if err != nil {
		return err
	}
	if f.name == compare.Current {
		return usagef("the policy %s decides nothing: it repeats past placements", compare.Current)
	}
	if f.name != "" {
		if err := checkPolicies(&catalog, f.name); err != nil {
			return err
		}
	}
	q, found, err := f.question(cmd.Context(), &catalog)
	if err != nil {
		return err
	}
	view, err := explain.OfPod(q, found)
	if err != nil {
		return err
	}
	return a.show(f.format, view)
}

// question returns the decision to explain, and the policy to score it.
func (f *explainFlags) question(ctx context.Context, catalog *compare.Catalog) (*snapshot.Question, compare.Found, error) {
	if len(f.logs) > 0 {
		q, err := snapshot.AskLog(f.logs, f.pod)
		if err != nil {
			return nil, compare.Found{}, err
		}
		if f.name != "" {
			found, err := explain.PolicyNamed(catalog, f.name, q)
			return q, found, err
		}
		found, err := explain.PolicyLogged(q)
		return q, found, err
	}
	client, err := f.cluster.connect()
	if err != nil {
		return nil, compare.Found{}, err
	}
	picture, err := client.Read(ctx)
	if err != nil {
		return nil, compare.Found{}, err
	}
	prices, err := kube.ReadPrices(f.cluster.prices)
	if err != nil {
		return nil, compare.Found{}, err
	}
	q, err := picture.Ask(f.pod, f.cluster.appLabel, f.cluster.fleet, prices)
	if err != nil {
		return nil, compare.Found{}, err
	}
	q.State.SetClock(float64(time.Now().UnixMicro()) / 1e6)
	if f.name != "" {
		found, err := explain.PolicyNamed(catalog, f.name, q)
		return q, found, err
	}
	object, err := client.Policy(ctx, f.policyName)
	if errors.Is(err, snapshot.ErrNoPolicy) {
		q.NoPolicy = true
		found, err := explain.PolicyNamed(catalog, explain.Upstream, q)
		return q, found, err
	}
	if err != nil {
		return nil, compare.Found{}, err
	}
	q.Active = true
	found, err := explain.PolicyOf(object, q)
	return q, found, err
}
