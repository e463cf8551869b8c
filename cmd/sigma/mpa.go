package main

import "github.com/spf13/cobra"

func (a *app) mpa() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mpa",
		Short: "Size workloads: replicas and requests together",
	}
	cmd.AddCommand(a.mpaReplay(), a.mpaExplain(), a.mpaSimulate(), a.mpaTrain())
	a.group(cmd)
	return cmd
}
