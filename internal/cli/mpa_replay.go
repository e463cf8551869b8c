package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/internal/explain"
	"github.com/sigma-scheduler/sigma/internal/plural"
	"github.com/sigma-scheduler/sigma/internal/scaling"
	"github.com/sigma-scheduler/sigma/mpa/journal"
)

func (a *app) mpaReplay() *cobra.Command {
	var policies []string
	cmd := &cobra.Command{
		Use:   "replay FILE…",
		Short: "Compute the decisions of journals again",
		Long: `Replay reads journals of the recommender, or of simulate --log, computes every
decision again from its observation, and compares. It fails if one differs.

Each file is replayed on its own. If the program does not know an agent, it takes the
recommendations from the journal and computes the guards.`,
		Example: `  sigma mpa replay journal/shop/web.jsonl journal/shop/web.jsonl.1
  sigma mpa replay --policy policy.yaml web-policy-1.jsonl`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("no journal is given; see sigma mpa replay --help")
			}
			return nil
		},
		RunE: a.do(func(cmd *cobra.Command, args []string) error {
			different := 0
			weights, err := scaling.Weights(policies)
			if err != nil {
				return err
			}
			for _, path := range args {
				var v *journal.Verdict
				if err := until(cmd.Context(), func() (err error) {
					v, err = journal.ReplayFile(path, weights)
					return err
				}); err != nil {
					return err
				}
				explain.SizingVerdict(a.stdout, v)
				if v.First != nil {
					different++
				}
			}
			if different > 0 {
				return fmt.Errorf("%d of %s differ", different, plural.Of(len(args), "journal"))
			}
			return nil
		}),
	}
	cmd.Flags().StringArrayVar(&policies, "policy", nil, "ScalingPolicy or network of a learned agent in the journals; the shipped policy is known (repeatable)")
	return cmd
}
