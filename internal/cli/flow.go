package cli

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/internal/flows"
	"github.com/sigma-scheduler/sigma/internal/plural"
)

func (a *app) flow() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "flow",
		Short: "Order flows in front of a link: short ones first",
	}
	cmd.AddCommand(a.flowSimulate())
	a.group(cmd)
	return cmd
}

func (a *app) flowSimulate() *cobra.Command {
	var (
		s                   flows.Simulation
		path, rate          string
		format, page        string
		policies            []string
		steps, quiet        bool
		defaultFlows, seeds = 200_000, 5
	)
	cmd := &cobra.Command{
		Use:   "simulate --sizes F.csv --load .8 --rate 10G",
		Short: "Compare orders of flows on a simulated link or fabric",
		Long: `Simulate sends flows, of sizes drawn from a distribution and at random times, through a
link, and lets each policy order them. It prints how long short flows (up to 100 kB), medium
ones (up to 10 MB) and long ones take: mean and 99th percentile of the time and of the
slowdown, which is the time over that of the flow alone.

The file of sizes has the columns size_bytes and cdf, ascending up to 1. Sizes are uniform
between two lines; with --steps each line is one size.

Policies:
  fair               the link is shared evenly, as TCP flows come near to
  fifo[:PACKETS]     one common queue with a finite buffer, 1000 packets by default
  bands:100k/1.8M    a flow goes to the next band each time it has sent so many bytes
  tuned[:BANDS]      bands with thresholds found by simulation, on other arrivals; 4 by default
  hinted[:E[/W]]     the same with estimates of the sizes, from the second band on. Their error
                     is a factor exp(E·z), E = 1 by default; a share W of them is another flow's
  las                least attained service: who has sent least goes first
  srpt               the oracle: sizes are known, and who has least left goes first

With --hosts a fabric takes the link's place, each host sending to every other. Every port is
simulated alone and delays are added; --exact shares all ports at once, and is slow.

The same flags give the same figures. ± is half of the 95 % interval over seeds.`,
		Example: `  sigma flow simulate --sizes websearch.csv --load .8 --rate 10G --policy fair,bands:100k/1.8M/9.9M,tuned,hinted,las,srpt
  sigma flow simulate --sizes websearch.csv --load .6 --rate 25G --hosts 144 --report flows.html
  sigma flow simulate --sizes websearch.csv --load .8 --rate 10G --hosts 16 --exact --policy fair,tuned --format json`,
		Args: noArgs,
		RunE: a.do(func(cmd *cobra.Command, _ []string) error {
			if err := required(cmd, "sizes", "load", "rate"); err != nil {
				return err
			}
			var err error
			if s.Rate, err = flow.ParseAmount(rate); err != nil {
				return usagef("--rate %w", err)
			}
			if s.Policies, err = flows.ParsePolicies(policies); err != nil {
				return usagef("--policy %w", err)
			}
			if err := s.Check(); err != nil {
				return usagef("%w", err)
			}
			if err := cmp.Or(oneOf("format", format, "table", "json"), regular("report", page)); err != nil {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if s.Sizes, err = flow.ParseSizes(path, bytes.NewReader(text), steps); err != nil {
				return err
			}
			s.Sizes.Name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
			s.Digest = fmt.Sprintf("sha256:%x", sha256.Sum256(text))
			show := a.newProgress(s.Total(), "simulation", quiet)
			defer show.end()
			s.Done = show.add
			c, err := s.Run(cmd.Context())
			if show.end(); cmd.Context().Err() != nil {
				return interrupted("%d of %s done, and nothing written", show.count(), plural.Of(s.Total(), "simulation"))
			}
			if err != nil {
				return err
			}
			return a.writeReport(c, c.Report(), format, page)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&path, "sizes", "", "CSV file of a distribution of flow sizes")
	f.BoolVar(&steps, "steps", false, "each line of --sizes is one size, with nothing between them")
	f.Float64Var(&s.Load, "load", 0, "share of every link's rate that arrives, such as .8")
	f.BoolVar(&s.Overload, "overload", false, "allow a load of 1 and more")
	f.StringVar(&rate, "rate", "", "bits per second of a link, such as 10G")
	f.StringSliceVar(&policies, "policy", flows.DefaultPolicies(), "orders of flows to compare")
	f.IntVar(&s.Hosts, "hosts", 0, "hosts of a fabric; 0 = one link")
	f.BoolVar(&s.Exact, "exact", false, "share all ports of the fabric at once; for fair, bands, tuned and hinted")
	f.IntVar(&s.Connections, "connections", 0, "connections of the link that carry the flows as messages; 0 = one for each flow")
	f.DurationVar(&s.Gap, "gap", 20*time.Millisecond, "with --connections: a silence of this length ends a message of a connection, for the bands")
	f.IntVar(&s.Flows, "flows", defaultFlows, "flows of each seed, of which the first tenth does not count")
	f.IntVar(&s.Seeds, "seeds", seeds, "number of runs of each policy")
	f.Uint64Var(&s.Seed, "seed", 1, "seed of the first run")
	f.IntVar(&s.Workers, "workers", runtime.GOMAXPROCS(0), "simulations at the same time")
	f.StringVar(&format, "format", "table", "table or json")
	f.StringVar(&page, "report", "", "also write the comparison as an HTML page of one file")
	quietFlag(f, &quiet)
	return cmd
}
