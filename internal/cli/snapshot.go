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

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/plural"
	"github.com/sigma-scheduler/sigma/internal/shellword"
	"github.com/sigma-scheduler/sigma/internal/usage/prometheus"
	"github.com/sigma-scheduler/sigma/plugins/history"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
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
	flags.StringVar(&f.prices, "prices", "", "CSV of what nodes cost an hour: instance_type,capacity_type,region,price_per_hour[,currency] ; annotations of nodes are before it, and docs/prices.md has what is behind it")
}

func addAccess(flags *pflag.FlagSet, to *snapshot.Access) {
	flags.StringVar(&to.Kubeconfig, "kubeconfig", "", "kubeconfig file (default $KUBECONFIG, ~/.kube/config, or the pod that this runs in)")
	flags.StringVar(&to.Context, "context", "", "context of the kubeconfig (default its current one)")
	flags.DurationVar(&to.Timeout, "timeout", 30*time.Second, "how long to wait for an answer of the API server")
}

func (f *clusterFlags) connect() (*snapshot.Client, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	return snapshot.Connect(f.access)
}

func (f *clusterFlags) check() error {
	if err := oneOf("fleet", f.fleet, "open", "fixed"); err != nil {
		return err
	}
	if f.access.Timeout <= 0 {
		return usagef("--timeout %v: want more than 0", f.access.Timeout)
	}
	return nil
}

// snapshotFlags are the flags of snapshot.
type snapshotFlags struct {
	cluster   clusterFlags
	from      []string // dumps, in place of a cluster, and a file of use
	use       string   // that file; "" = none
	out       string
	scheduler string
	maxGrace  time.Duration
	watch     time.Duration
	quiet     bool
	priced    *kube.Prices
	metrics   prometheusFlags
	egress    egressFlags
	usage     usageFlags
	traffic   *snapshot.Egress   // nil = left out
	record    *prometheus.Record // days of use, nil = by request
	used      *snapshot.UseReport
	picture   *snapshot.Picture // that traffic and use are added to
}

func (a *app) snapshot() *cobra.Command {
	var f snapshotFlags
	cmd := &cobra.Command{
		Use:   "snapshot [--from FILE…] --out DIR",
		Short: "Make a trace of a running cluster, or of a dump of one, changing nothing",
		Long: `Snapshot reads the nodes, pods, workloads and placement rules of a cluster and
writes them as a trace. The account needs the verb list (with --watch also watch)
on nodes, pods, deployments, statefulsets, replicasets, jobs, cronjobs and
horizontalpodautoscalers, and on placementrules where there are any. With the verb
list on deviceclasses it knows which extended resources drivers serve. A note names
the kinds that the account may not list: nodes and pods it must. Nothing is changed.

With --from snapshot reads files in place of a cluster, .gz too, as written by

  ` + snapshot.DumpCommand + `

of Kubernetes 1.28 to 1.37. Fewer kinds, more kinds and several files will do. A file whose
name ends in .csv.gz has the use of pods, as docs/savings.md describes it.

Then "sigma compare --trace DIR --policy current,bestfit,learned" says how many
nodes the cluster uses, how many the same pods need under each policy, a bound that no
scheduler can beat, and which nodes could be drained now.

With --usage pods count at what they used in the last weeks instead of their requests, by
the metrics in --prometheus, and the last week's use is written beside the trace:
compare and replay print with it how often a node would have been short. The days that
were read are kept in a folder beside DIR, and a later snapshot reads new ones alone.

With --watch snapshot also records arrivals and departures from then on. It appends
them to a file beside DIR as they happen: after an interrupt or a kill, the same
command resumes the recording and notes what changed in between. It writes the trace
at the beginning, every ten minutes, after an interrupt and at the end. A DIR that ends
in .tar.gz is one file.`,
		Example: `  sigma snapshot --out snap
  sigma compare --trace snap --policy current,bestfit,learned
  sigma snapshot --from cluster.json.gz --out snap
  sigma snapshot --out by-use --usage --prometheus http://localhost:9090
  sigma snapshot --out day --watch 24h --context production`,
		Args: dumpArgs,
		RunE: a.do(func(cmd *cobra.Command, args []string) error {
			if err := required(cmd, "out"); err != nil {
				return err
			}
			f.from = append(f.from, args...)
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
			if err := f.metrics.check(); err != nil {
				return err
			}
			if len(f.metrics.servers) > 0 && !f.egress.on && !f.usage.on {
				return usagef("--prometheus wants --usage or --egress")
			}
			if err := f.usage.check(cmd.Flags(), &f.metrics, f.out); err != nil {
				return err
			}
			if f.traffic, err = f.egress.read(cmd.Context(), cmd.Flags(), &f.metrics); err != nil {
				return err
			}
			if f.watch > 0 {
				client, err := f.cluster.connect()
				if err != nil {
					return err
				}
				return a.record(cmd.Context(), client, f)
			}
			return a.snap(cmd.Context(), f)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.out, "out", "", "folder, or .tar.gz file, to write the trace to")
	flags.StringVar(&f.scheduler, "scheduler", "", "mark the pods of all other schedulerNames as ones that must not move (default: none)")
	flags.DurationVar(&f.maxGrace, "max-grace-period", podspec.MaxGrace, "mark the pods with a longer terminationGracePeriodSeconds as ones that must not move")
	flags.DurationVar(&f.watch, "watch", 0, "also record arrivals and departures for this long")
	cmd.MarkFlagsMutuallyExclusive("scheduler", "watch") // a recording marks nothing
	cmd.MarkFlagsMutuallyExclusive("max-grace-period", "watch")
	f.metrics.add(flags, ", or several with commas: of the same pods, or of different ones")
	f.egress.add(flags)
	f.usage.add(flags)
	cmd.MarkFlagsMutuallyExclusive("egress", "watch") // traffic is known for the present only
	cmd.MarkFlagsMutuallyExclusive("usage", "watch")
	quietFlag(flags, &f.quiet)
	f.cluster.add(flags)
	dumpFlag(cmd, &f.from)
	cmd.MarkFlagsMutuallyExclusive("from", "watch")
	return cmd
}

// dumpFlag adds --from to a command that reads a cluster.
func dumpFlag(cmd *cobra.Command, to *[]string) {
	cmd.Flags().StringSliceVar(to, "from", nil, "read `FILE`s that kubectl get -o json wrote in place of a cluster, and a .csv.gz of what pods used (docs/savings.md); - is the standard input")
	for _, other := range []string{"kubeconfig", "context"} {
		cmd.MarkFlagsMutuallyExclusive("from", other)
	}
}

// dumpArgs takes arguments as more files of --from, as a shell makes of --from *.json.
func dumpArgs(cmd *cobra.Command, args []string) error {
	if cmd.Flags().Changed("from") {
		return nil
	}
	return noArgs(cmd, args)
}

// usageOf separates the file of use, by its name, from the dumps; "" = there is none.
func usageOf(from []string) (dumps []string, use string, err error) {
	for _, path := range from {
		switch {
		case strings.HasSuffix(path, ".csv"):
			return nil, "", usagef("--from %s: want use packed: gzip %s", path, shellword.Quote(path))
		case !strings.HasSuffix(path, ".csv.gz"):
			dumps = append(dumps, path)
		case use != "":
			return nil, "", usagef("--from %s,%s: want one file of use", use, path)
		default:
			use = path
		}
	}
	if use != "" && len(dumps) == 0 {
		return nil, "", usagef("--from %s: want a dump beside the file of use", use)
	}
	return dumps, use, nil
}

// read reads the cluster or its dumps.
func (f *clusterFlags) read(ctx context.Context, from []string, seen func(objects int)) (*snapshot.Picture, error) {
	if len(from) > 0 {
		if err := f.check(); err != nil {
			return nil, err
		}
		return snapshot.ReadDumps(from)
	}
	client, err := f.connect()
	if err != nil {
		return nil, err
	}
	client.Lenient, client.Seen = true, seen
	return client.Read(ctx)
}

// snap writes a trace of the cluster as it is.
func (a *app) snap(ctx context.Context, f snapshotFlags) error {
	if _, err := os.Stat(f.recording()); err == nil {
		return usagef("a recording of %s is not finished; resume it with --watch, or delete %s", f.out, f.recording())
	}
	show := a.newProgress(0, "object", f.quiet)
	defer show.end()
	dumps, use, err := usageOf(f.from)
	if err != nil {
		return err
	}
	f.use = use
	picture, err := f.cluster.read(ctx, dumps, func(objects int) { show.set(objects, "") })
	show.end()
	if err != nil {
		return err
	}
	if len(picture.Nodes) == 0 {
		return errors.New("the cluster has no nodes")
	}
	prices, err := picture.Prices(f.cluster.prices)
	if err != nil {
		return err
	}
	r := snapshot.NewRecorder(f.cluster.appLabel, time.Now())
	r.Scheduler, r.MaxGrace, r.Prices = f.scheduler, f.maxGrace, prices
	if err := r.Record(picture, time.Now()); err != nil {
		return err
	}
	f.picture = picture
	if f.usage.on {
		if f.record, err = f.usage.read(ctx, a, &f.metrics, f.quiet); err != nil {
			return err
		}
	}
	notes, err := f.write(r)
	if err != nil {
		return err
	}
	for _, note := range append(append(picture.Notes, notes...), r.Priced()) {
		fmt.Fprintln(a.stderr, note)
	}
	for _, m := range picture.Missing {
		fmt.Fprintln(a.stderr, m)
	}
	if f.used != nil {
		for _, line := range f.used.Text() {
			fmt.Fprintln(a.stdout, line)
		}
	}
	fmt.Fprintf(a.stdout, "%s: %s\n", f.out, tallyText(r.Counts()))
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
	if f.use != "" {
		note, err := snapshot.AddUsage(t, f.use, trace.DefaultUnpacked)
		if err != nil {
			return nil, err
		}
		if note != "" {
			notes = append(notes, note)
		}
	}
	if f.record != nil {
		if t, f.used, err = f.picture.ByUse(t, f.record, f.usage.options); err != nil {
			return nil, err
		}
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
	began := time.Now()
	// --fleet is of the trace.
	r, err := snapshot.OpenRecorder(f.recording(), f.cluster.appLabel, "open", ledger.Rotation{}, began)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	r.Prices = f.priced
	if former, err := r.Resume(); err != nil {
		return err
	} else if !former.IsZero() {
		began = former
		fmt.Fprintf(a.stderr, "resuming the recording that began at %s\n", began.Local().Format(time.DateTime))
	}
	end := began.Add(f.watch)
	err = a.watchCluster(ctx, client, r, end, f.quiet, ", until "+end.Local().Format(time.DateTime), func(tell func(string)) error {
		notes, err := f.write(r)
		for _, note := range append(notes, r.Priced()) {
			tell(note)
		}
		return err
	})
	if err != nil {
		return err
	}
	t := r.Total()
	fmt.Fprintf(a.stdout, "%s: %s; in %v %d pods came and %d went\n", f.out, tallyText(t), time.Since(began).Round(time.Second), t.Arrived, t.Departed)
	if ctx.Err() != nil {
		return interrupted("the trace is written; the same command resumes the recording; delete %s to end it", f.recording())
	}
	return os.Remove(f.recording())
}

// tallyText summarises a tally in one line.
func tallyText(t history.Counts) string {
	nodes := plural.Of(t.Nodes, "node")
	if t.Cordoned > 0 {
		nodes += fmt.Sprintf(" (%d cordoned)", t.Cordoned)
	}
	return fmt.Sprintf("%s, %s on them, %d waiting, %s, %s", nodes, plural.Of(t.Placed, "pod"), t.Waiting, plural.Of(t.Apps, "app"), plural.Of(t.Rules, "rule"))
}
