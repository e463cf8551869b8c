package cli

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/sigma-scheduler/sigma/internal/shellword"
	"github.com/sigma-scheduler/sigma/internal/usage"
	"github.com/sigma-scheduler/sigma/internal/usage/prometheus"
	"github.com/sigma-scheduler/sigma/plugins/snapshot"
)

// prometheusFlags select series of Prometheis.
type prometheusFlags struct {
	servers []string
	match   string
}

func (f *prometheusFlags) add(flags *pflag.FlagSet, about string) {
	flags.StringSliceVar(&f.servers, "prometheus", nil, "URL of a Prometheus with cAdvisor's metrics"+about)
	flags.StringVar(&f.match, "prometheus-match", "", `with --prometheus: matchers of labels for all queries, such as 'cluster="a"' where it has several clusters`)
}

func (f *prometheusFlags) check() error {
	if len(f.servers) == 0 && f.match != "" {
		return usagef("--prometheus-match wants --prometheus")
	}
	if _, err := prometheus.Matchers(f.match); err != nil {
		return usagef("--prometheus-match %q: %v", f.match, err)
	}
	return nil
}

// words are the flags in a command.
func (f *prometheusFlags) words() string {
	words := "--prometheus " + shellword.Quote(strings.Join(f.servers, ","))
	if f.match != "" {
		words += " --prometheus-match " + shellword.Quote(f.match)
	}
	return words
}

// usageFlags define whether and how a snapshot counts pods by their use.
type usageFlags struct {
	on      bool
	judge   time.Duration
	days    int
	history string
	renamed []string
	options snapshot.UseOptions
}

func (f *usageFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.on, "usage", false, "count pods at what they use, by the last 28 days in --prometheus")
	flags.DurationVar(&f.judge, "judge", 7*24*time.Hour, "with --usage: the last days, which no size is fitted to")
	flags.IntVar(&f.days, "days", usage.LeastDays, "with --usage: days of history below which a workload counts by request")
	flags.StringVar(&f.history, "history", "", "with --usage: folder that keeps the days that were read (default .NAME.usage beside DIR)")
	flags.StringSliceVar(&f.renamed, "renamed", nil, "with --usage: a workload that had another name, as FORMER=PRESENT, each namespace/kind/name")
}

// check completes the options.
func (f *usageFlags) check(flags *pflag.FlagSet, from *prometheusFlags, out string) error {
	if !f.on {
		for _, name := range []string{"judge", "days", "history", "renamed"} {
			if flags.Changed(name) {
				return usagef("--%s wants --usage", name)
			}
		}
		return nil
	}
	const day = 24 * time.Hour
	if len(from.servers) == 0 {
		return usagef("--usage wants --prometheus URL")
	}
	if f.judge%day != 0 || f.judge < day || f.judge >= usage.Window*day {
		return usagef("--judge %v: want whole days from 24h to %d of them", f.judge, usage.Window-1)
	}
	if f.days < 1 || f.days > usage.Window-int(f.judge/day) {
		return usagef("--days %d: want 1 to %d, the %d days that are read without --judge", f.days, usage.Window-int(f.judge/day), usage.Window)
	}
	renamed, err := snapshot.ParseRenamed(f.renamed)
	if err != nil {
		return usagef("--renamed %v", err)
	}
	if f.history == "" {
		f.history = filepath.Join(filepath.Dir(out), "."+strings.TrimSuffix(filepath.Base(out), ".tar.gz")+".usage")
	}
	f.options = snapshot.UseOptions{JudgeDays: int(f.judge / day), LeastDays: f.days, Renamed: renamed}
	return nil
}

// read reads the days that are not in the folder yet.
func (f *usageFlags) read(ctx context.Context, a *app, from *prometheusFlags, quiet bool) (*prometheus.Record, error) {
	show := a.newProgress(usage.Window, "day", quiet)
	defer show.end()
	r := prometheus.Reader{URLs: from.servers, Match: from.match, Folder: f.history, Progress: func(done, _ int) { show.set(done, "") }}
	rec, err := r.Read(ctx, time.Now(), usage.Window)
	if err != nil && ctx.Err() != nil {
		return nil, interrupted("the days that were read are in %s; the same command resumes", f.history)
	}
	if mixed, ok := errors.AsType[*prometheus.MixedError](err); ok {
		return nil, usagef("--prometheus: %v: choose one with --prometheus-match '%s=%q'", err, mixed.Label, mixed.Values[len(mixed.Values)-1])
	}
	if errors.Is(err, prometheus.ErrEmpty) {
		return nil, usagef("--prometheus: %v: --usage needs cAdvisor's metrics of the kubelets, scraped every 2 minutes or more often", err)
	}
	return rec, err
}
