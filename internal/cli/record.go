package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/internal/plural"
	"github.com/sigma-scheduler/sigma/plugins/history"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/pilot/record"
	"github.com/sigma-scheduler/sigma/plugins/snapshot"
)

// Files of sigma record, below its folder.
const (
	recordLog      = "decisions.jsonl"
	recordSegments = "segments"
)

// recordRotation bounds the log, from which segments are made.
var recordRotation = ledger.Rotation{Bytes: 64 << 20, Files: 8}

type recordFlags struct {
	cluster clusterFlags
	out     string
	lasting time.Duration
	days    int
	size    size
	priced  *kube.Prices
	quiet   bool
}

func (a *app) recordCommand() *cobra.Command {
	f := recordFlags{size: 4 << 30}
	cmd := &cobra.Command{
		Use:   "record --out DIR",
		Short: "Record a running cluster day by day, changing nothing",
		Long: `Record watches the nodes and pods of a cluster, whatever schedules it, and keeps each whole day of
UTC as a trace: DIR/segments/traces is a folder of traces for "sigma tune" and "sigma compare". The
events go to DIR/decisions.jsonl, a decision log without decisions, which sigma-pilot follows as it
follows a scheduler's. Memory and disk are bounded: what stands now is kept, and --days and --size.

It ends after --watch or an interrupt. The same command goes on: what changed meanwhile is recorded at
that moment, and a day that was not watched for more than 15 minutes has a gap and no trace.`,
		Example: "  sigma record --out record\n  sigma record --out record --days 28 --context production\n  sigma tune --trace record/segments/traces --out policy.yaml",
		Args:    noArgs,
		RunE: a.do(func(cmd *cobra.Command, _ []string) error {
			if err := required(cmd, "out"); err != nil {
				return err
			}
			switch {
			case f.lasting < 0 || f.lasting == 0 && cmd.Flags().Changed("watch"):
				return usagef("--watch %v: want more than 0", f.lasting)
			case f.days < 1:
				return usagef("--days %d: want 1 or more", f.days)
			}
			end := time.Unix(math.MaxInt32, 0)
			if f.lasting > 0 {
				end = time.Now().Add(f.lasting)
			}
			var err error
			if f.priced, err = kube.ReadPrices(f.cluster.prices); err != nil {
				return err
			}
			client, err := f.cluster.connect()
			if err != nil {
				return err
			}
			return a.recordDays(cmd.Context(), client, &f, end)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.out, "out", "", "folder to record to")
	flags.DurationVar(&f.lasting, "watch", 0, "how long to record (default until an interrupt)")
	flags.IntVar(&f.days, "days", 60, "days to keep; the oldest go first")
	flags.Var(&f.size, "size", "bytes of days to keep; the oldest go first")
	quietFlag(flags, &f.quiet)
	f.cluster.add(flags)
	return cmd
}

// recordDays records until the time is over or an interrupt.
func (a *app) recordDays(ctx context.Context, client *snapshot.Client, f *recordFlags, end time.Time) (err error) {
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return err
	}
	path := filepath.Join(f.out, recordLog)
	now := time.Now()
	// It holds the lock of the log: only one process makes segments.
	r, err := snapshot.OpenRecorder(path, f.cluster.appLabel, f.cluster.fleet, recordRotation, now)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	r.Prices = f.priced
	s, err := record.OpenSegments(filepath.Join(f.out, recordSegments), record.Limits{Days: f.days, Bytes: int64(f.size)})
	if err != nil {
		return err
	}
	l := record.Follow(path, s, now.AddDate(100, 0, 0)) // there are no decisions to compare
	defer l.Close()
	if err := l.Poll(now); err != nil {
		return err
	}
	nodes := map[string]string{}
	for _, name := range l.Nodes() {
		nodes[name] = ""
	}
	if err := r.Continue(l.Start(), nodes); err != nil {
		return err
	}
	err = a.watchCluster(ctx, client, r, end, f.quiet, "", func(tell func(string)) error {
		if err := errors.Join(l.Poll(time.Now()), l.Fault()); err != nil {
			return err
		}
		if err := s.Complete(context.WithoutCancel(ctx)); err != nil {
			tell(err.Error()) // it is tried again, and later events are recorded
		}
		for _, g := range s.List() {
			if g.Gap != "" {
				tell(fmt.Sprintf("%s has a gap: %s", g.Start.Format(time.DateOnly), g.Gap))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	whole := 0
	for _, g := range s.List() {
		if g.Gap == "" {
			whole++
		}
	}
	fmt.Fprintf(a.stdout, "%s: %s without a gap, %s; in %v %d pods came and %d went\n", f.out, plural.Of(whole, "day"),
		plural.Of(r.Counts().Nodes, "node"), time.Since(now).Round(time.Second), r.Counts().Arrived, r.Counts().Departed)
	return nil
}

// watchCluster records until the end or an interrupt. save is called now and then, with a function that prints each
// text once.
func (a *app) watchCluster(ctx context.Context, client *snapshot.Client, r *snapshot.Recorder, end time.Time, quiet bool, note string, save func(tell func(string)) error) error {
	show := a.newProgress(0, "arrival", quiet || terminalWidth(a.stderr) == 0)
	defer show.end()
	told := map[string]bool{}
	tell := func(text string) {
		if !told[text] {
			show.print(a.stderr, text)
		}
		told[text] = true
	}
	return client.Watch(ctx, r, snapshot.Watch{
		Until: end, Notify: func(text string) { show.print(a.stderr, text) },
		Seen: func(t history.Counts) {
			show.set(t.Arrived, fmt.Sprintf("%d gone, %s, %s%s", t.Departed, plural.Of(t.Nodes, "node"), plural.Of(t.Placed+t.Waiting, "pod"), note))
		},
		Save: func() error { return save(tell) },
	})
}
