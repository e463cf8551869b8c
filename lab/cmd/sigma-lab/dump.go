package main

import (
	"compress/gzip"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/internal/cli"
	"github.com/sigma-scheduler/sigma/internal/durable"
	"github.com/sigma-scheduler/sigma/lab/dump"
)

func dumpCommand(shell cli.Shell) *cobra.Command {
	var out, usage string
	var opt dump.Options
	cmd := &cobra.Command{
		Use:   "dump --nodes N --seed S --out FILE.json.gz",
		Short: "Write a dump of a messy cluster, as kubectl get -o json",
		Long: `Dump generates a cluster that nobody tuned for: pools with taints, spot nodes, a GPU, a
cordoned and an unreachable node, zones, budgets, volumes, pods that wait for different
reasons, and what metrics-server measured. "sigma savings --from FILE" reads it.`,
		Example: `  sigma-lab dump --nodes 40 --seed 11 --cloud aws --out docs/examples/messy.json.gz --usage docs/examples/messy.csv.gz`,
		Args:    cobra.NoArgs,
		RunE: shell.Do(func(_ *cobra.Command, _ []string) error {
			if opt.Nodes < 10 || out == "" || opt.Minor < 28 || opt.Minor > 37 {
				return shell.Usage("want --out, --nodes of at least 10, and --minor of 28 to 37")
			}
			err := writePacked(out, func(w io.Writer) error { return dump.Write(w, opt) })
			if err == nil && usage != "" {
				err = writePacked(usage, func(w io.Writer) error { return dump.WriteUsage(w, opt) })
			}
			return err
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&out, "out", "", "file to write; one that ends in .gz is packed")
	flags.StringVar(&usage, "usage", "", "file of the use in the weeks before, also to write: .csv.gz")
	flags.IntVar(&opt.Nodes, "nodes", 40, "nodes of the cluster")
	flags.Uint64Var(&opt.Seed, "seed", 1, "of what is drawn")
	flags.StringVar(&opt.Cloud, "cloud", "aws", "aws, azure or google; empty = machines of one's own")
	flags.IntVar(&opt.Minor, "minor", 36, "Kubernetes 1.MINOR")
	flags.IntVar(&opt.PodsPerNode, "pods", 6, "pods of workloads on a node, on average")
	flags.StringSliceVar(&opt.Without, "without", nil, "kinds to leave out, such as PodMetrics")
	return cmd
}

// writePacked writes a file, which is packed where its name ends in .gz.
func writePacked(path string, write func(io.Writer) error) error {
	return durable.WriteFile(path, func(w io.Writer) error {
		if !strings.HasSuffix(path, ".gz") {
			return write(w)
		}
		packed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
		if err != nil {
			return err
		}
		return errors.Join(write(packed), packed.Close())
	})
}
