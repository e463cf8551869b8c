package cli

import (
	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/internal/retrain"
)

func (a *app) mpa() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mpa",
		Short: "Size workloads: replicas and requests together",
	}
	cmd.AddCommand(a.mpaReplay(), a.mpaExplain(), a.mpaSimulate(), a.mpaTrain(), a.mpaConcurrency(), retrain.Command(a.stdout, a.do))
	a.group(cmd)
	return cmd
}
