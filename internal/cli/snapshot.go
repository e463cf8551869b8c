package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sigma-scheduler/sigma/internal/plural"
	"github.com/sigma-scheduler/sigma/plugins/history"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
	"github.com/sigma-scheduler/sigma/plugins/snapshot"
)

// clusterFlags define the access to a cluster and the label of an app.
type clusterFlags struct {
	access   snapshot.Access
	appLabel string
	fleet    string
	prices   string
}

func (f *clusterFlags) add(flags *pflag.FlagSet) {
	addAccess(flags, &f.access)
	flags.StringVar(&f.appLabel, "app-label", "", "label whose value is a pod's app (default: the pod's top controller)")
	flags.StringVar(&f.fleet, "fleet", "open", "open: empty nodes stay empty as long as possible; fixed: all nodes are candidates")
	flags.StringVar(&f.prices, "prices", "", "CSV of what nodes cost an hour: instance_type,capacity_type,region,price_per_hour[,currency] (default: their annotations, else a linear model)")
}

func addAccess(flags *pflag.FlagSet, to *snapshot.Access) {
	flags.StringVar(&to.Kubeconfig, "kubeconfig", "", "kubeconfig file (default $KUBECONFIG, ~/.kube/config, or the pod that this runs in)")
	flags.StringVar(&to.Context, "context", "", "context of the kubeconfig (default its current one)")
	flags.DurationVar(&to.Timeout, "timeout", 30*time.Second, "how long to wait for an answer of the API server")
}

func (f *clusterFlags) connect() (*snapshot.Client, error) {
	if err := oneOf("fleet", f.fleet, "open", "fixed"); err != nil {
		return nil, err
	}
	if f.access.Timeout <= 0 {
		return nil, usagef("--timeout %v: want more than 0", f.access.Timeout)
	}
	return snapshot.Connect(f.access)
}

// snapshotFlags are the flags of snapshot.
type snapshotFlags struct {
	cluster   clusterFlags
	out       string
	scheduler string
	maxGrace  time.Duration
	watch     time.Duration
	quiet     bool
	priced    *kube.Prices
	egress    egressFlags
	traffic   *snapshot.Egress  // nil = left out
	picture   *snapshot.Picture // that traffic is added to
}

func (a *app) snapshot() *cobra.Command {
	var f snapshotFlags
	cmd := &cobra.Command{
		Use:   "snapshot --out DIR",
		Short: "Make a trace of a running cluster, changing nothing",
		Long: `Snapshot reads the nodes, pods, workloads and placement rules of a cluster and
writes them as a trace. The account needs the verb list (with --watch also watch)
on nodes, pods, deployments, statefulsets, replicasets, jobs, cronjobs and
horizontalpodautoscalers, and on placementrules where there are any. With the verb
list on deviceclasses it knows which extended resources drivers serve. Nothing is
changed.

Then "sigma compare --trace DIR --policy current,bestfit,learned" says how many
nodes the cluster uses, how many the same pods need under each policy, a bound that no
scheduler can beat, and which nodes could be drained now.

With --watch snapshot also records arrivals and departures from then on. It appends
them to a file beside DIR as they happen: after an interrupt or a kill, the same
command resumes the recording and notes what changed in between. It writes the trace
at the beginning, every ten minutes, after an interrupt and at the end. A DIR that ends
in .tar.gz is one file.`,
		Example: `  sigma snapshot --out snap
  sigma compare --trace snap --policy current,bestfit,learned
  sigma snapshot --out day --watch 24h --context production`,
		Args: noArgs,
		RunE: a.do(func(cmd *cobra.Command, _ []string) error {
			if err := required(cmd, "out"); err != nil {
				return err
			}
			if f.watch < 0 || f.watch == 0 && cmd.Flags().Changed("watch") {
				return usagef("--watch %v: want more than 0", f.watch)
			}
			if f.maxGrace < time.Second || f.maxGrace > 24*time.Hour {
				return usagef("--max-grace-period %v: want 1s to 24h", f.maxGrace)
			}
			f.out = filepath.Clean(f.out)
			var err error
			if f.priced, err = kube.ReadPrices(f.cluster.prices); err != nil {
				return err
			}
			if f.traffic, err = f.egress.read(cmd.Context(), cmd.Flags()); err != nil {
				return err
			}
			client, err := f.cluster.connect()
			if err != nil {
				return err
			}
			if f.watch > 0 {
				return a.record(cmd.Context(), client, f)
			}
			return a.snap(cmd.Context(), client, f)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.out, "out", "", "folder, or .tar.gz file, to write the trace to")
	flags.StringVar(&f.scheduler, "scheduler", "", "mark the pods of all other schedulerNames as ones that must not move (default: none)")
	flags.DurationVar(&f.maxGrace, "max-grace-period", podspec.MaxGrace, "mark the pods with a longer terminationGracePeriodSeconds as ones that must not move")
	flags.DurationVar(&f.watch, "watch", 0, "also record arrivals and departures for this long")
	cmd.MarkFlagsMutuallyExclusive("scheduler", "watch") // a recording marks nothing
	cmd.MarkFlagsMutuallyExclusive("max-grace-period", "watch")
	f.egress.add(flags)
	cmd.MarkFlagsMutuallyExclusive("egress", "watch") // traffic is known for the present only
	quietFlag(flags, &f.quiet)
	f.cluster.add(flags)
	return cmd
}

// snap writes a trace of the cluster as it is.
func (a *app) snap(ctx context.Context, client *snapshot.Client, f snapshotFlags) error {
	if _, err := os.Stat(f.recording()); err == nil {
		return usagef("a recording of %s is not finished; resume it with --watch, or delete %s", f.out, f.recording())
	}
	show := a.newProgress(0, "object", f.quiet)
	defer show.end()
	client.Seen = func(objects int) { show.set(objects, "") }
	picture, err := client.Read(ctx)
	show.end()
	if err != nil {
		return err
	}
	if len(picture.Nodes) == 0 {
		return errors.New("the cluster has no nodes")
	}
	r := snapshot.NewRecorder(f.cluster.appLabel, time.Now())
	r.Scheduler, r.MaxGrace, r.Prices = f.scheduler, f.maxGrace, f.priced
	if err := r.Record(picture, time.Now()); err != nil {
		return err
	}
	f.picture = picture
	notes, err := f.write(r)
	if err != nil {
		return err
	}
	for _, note := range append(append(picture.Notes, notes...), r.Priced()) {
		fmt.Fprintln(a.stderr, note)
	}
	fmt.Fprintf(a.stdout, "%s: %s\n", f.out, tallyText(r.Tally()))
	return nil
}

// recording is the path of the recording.
func (f *snapshotFlags) recording() string {
	return filepath.Join(filepath.Dir(f.out), "."+filepath.Base(f.out)+".recording.jsonl")
}

// write writes the trace of the recording so far.
func (f *snapshotFlags) write(r *snapshot.Recorder) (notes []string, err error) {
	name, archive := strings.CutSuffix(filepath.Base(f.out), ".tar.gz")
	t, notes, err := r.Trace(name, f.cluster.fleet)
	if err != nil {
		return nil, err
	}
	if f.traffic != nil {
		more, err := f.picture.AddEgress(t, f.cluster.appLabel, *f.traffic)
		if err != nil {
			return nil, err
		}
		notes = append(notes, more...)
	}
	if archive {
		return notes, t.WriteTarGz(f.out)
	}
	return notes, t.Write(f.out)
}

// record records until the time is over or an interrupt.
func (a *app) record(ctx context.Context, client *snapshot.Client, f snapshotFlags) (err error) {
	if err := os.MkdirAll(filepath.Dir(f.out), 0o755); err != nil {
		return err
	}
	r, resumed, err := snapshot.OpenRecorder(f.recording(), f.cluster.appLabel, time.Now())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	r.Prices = f.priced
	began := r.Began()
	end := began.Add(f.watch)
	show := a.newProgress(0, "arrival", f.quiet || terminalWidth(a.stderr) == 0)
	defer show.end()
	tell := func(text string) { show.print(a.stderr, text) }
	if resumed {
		tell(fmt.Sprintf("resuming the recording that began at %s", began.Local().Format(time.DateTime)))
	}
	told := map[string]bool{}
	err = client.Watch(ctx, r, snapshot.Watch{
		Until: end, Notify: tell,
		Seen: func(t history.Tally) {
			show.set(t.Arrived, fmt.Sprintf("%d gone, %s, %s, until %s", t.Left, plural.Of(t.Nodes, "node"),
				plural.Of(t.Standing+t.Waiting, "pod"), end.Local().Format(time.DateTime)))
		},
		Save: func() error {
			notes, err := f.write(r)
			for _, note := range append(notes, r.Priced()) {
				if !told[note] {
					tell(note)
				}
				told[note] = true
			}
			return err
		},
	})
	show.end()
	if err != nil {
		return err
	}
	t := r.Tally()
	fmt.Fprintf(a.stdout, "%s: %s; in %v %d pods came and %d went\n", f.out, tallyText(t), time.Since(began).Round(time.Second), t.Arrived, t.Left)
	if ctx.Err() != nil {
		return interrupted("the trace is written; the same command resumes the recording; delete %s to end it", f.recording())
	}
	return os.Remove(f.recording())
}

// tallyText summarises a tally in one line.
func tallyText(t history.Tally) string {
	nodes := plural.Of(t.Nodes, "node")
	if t.Cordoned > 0 {
		nodes += fmt.Sprintf(" (%d cordoned)", t.Cordoned)
	}
	return fmt.Sprintf("%s, %s on them, %d waiting, %s, %s", nodes, plural.Of(t.Standing, "pod"), t.Waiting, plural.Of(t.Apps, "app"), plural.Of(t.Rules, "rule"))
}
