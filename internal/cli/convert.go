package cli

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/cerebro/convert"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

func (a *app) convert() *cobra.Command {
	var out string
	var quiet bool
	options := convert.Defaults()
	cmd := &cobra.Command{
		Use:   "convert FORMAT PATH… --out DIR",
		Short: "Turn a public data set, or a decision log, into traces",
		Long: `Convert reads the files of a public data set, or folders of them (.gz too), and
writes a trace. A set of several instances becomes one trace folder each.

` + formatsHelp() + `
  log       decision logs of a live scheduler: see "sigma convert log --help"`,
		Example: `  sigma convert funsearch weibull-5k.json --out traces/weibull
  sigma convert tianchi data/tianchi --large-first --out traces/tianchi
  sigma convert openb data/openb --list gpushare40 --seed 43 --out traces/openb-43`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return usagef("a FORMAT is missing; there are %s", strings.Join(append(formatNames(), "log"), ", "))
			case !slices.Contains(formatNames(), args[0]):
				return unknown("format", args[0], append(formatNames(), "log"))
			case len(args) == 1:
				return usagef("a PATH is missing: the files of the data set, or their folder")
			}
			return nil
		},
		ValidArgs: formatNames(),
		RunE: a.do(func(cmd *cobra.Command, args []string) error {
			if err := required(cmd, "out"); err != nil {
				return err
			}
			if err := onlyOptionsOf(cmd, args[0]); err != nil {
				return err
			}
			return a.convertTo(cmd.Context(), args[0], args[1:], options, out, quiet)
		}),
	}
	cmd.AddCommand(a.convertLog())
	flags := cmd.Flags()
	flags.StringVar(&out, "out", "", "folder to write (a trace of the same format in it is replaced)")
	a.unpackedFlag(flags)
	quietFlag(flags, &quiet)
	for _, f := range convert.Formats() {
		f.Flags(&options).VisitAll(func(option *flag.Flag) {
			if of := flags.Lookup(option.Name); of != nil { // several formats have it
				of.Usage += "; " + f.Name + ": " + option.Usage
				return
			}
			option.Usage = f.Name + ": " + option.Usage
			flags.AddGoFlag(option)
		})
	}
	return cmd
}

// convertTo writes nothing unless it can read everything. It writes one trace at once.
// It reads several once before it writes any, since a set may not fit in memory.
func (a *app) convertTo(ctx context.Context, format string, paths []string, options convert.Options, out string, quiet bool) error {
	several := false
	show := a.newProgress(0, "trace", quiet)
	defer func() { show.end() }()
	show.set(0, "reading")
	options.MaxUnpacked = int64(a.maxUnpacked)
	options.Warn = func(text string) { show.print(a.stderr, text) }
	err := convert.Convert(format, paths, options, func(t *trace.Trace, of int) error {
		if ctx.Err() != nil {
			return interrupted("nothing was written")
		}
		several = of > 1
		if several {
			show.expect(of)
			show.set(show.count()+1, "reading")
			return nil
		}
		return a.write(show, t, out)
	})
	if err != nil || !several {
		return unpackedHint(err)
	}
	show.end()
	options.Warn = nil // the first pass has warned
	show = a.newProgress(0, "trace", quiet)
	return convert.Convert(format, paths, options, func(t *trace.Trace, of int) error {
		if ctx.Err() != nil {
			return interrupted("%d of %s written, all complete", show.count(), plural(of, "trace"))
		}
		if err := a.write(show, t, filepath.Join(out, t.Name)); err != nil {
			return err
		}
		show.expect(of)
		show.set(show.count()+1, "written")
		return nil
	})
}

// onlyOptionsOf refuses a flag that the format does not read.
func onlyOptionsOf(cmd *cobra.Command, format string) error {
	readers := map[string][]string{} // formats by option
	for _, f := range convert.Formats() {
		f.Flags(&convert.Options{}).VisitAll(func(option *flag.Flag) {
			readers[option.Name] = append(readers[option.Name], f.Name)
		})
	}
	for _, option := range slices.Sorted(maps.Keys(readers)) {
		if cmd.Flags().Changed(option) && !slices.Contains(readers[option], format) {
			return usagef("--%s is an option of convert %s, not of %s", option, strings.Join(readers[option], " and "), format)
		}
	}
	return nil
}

func formatNames() []string {
	var names []string
	for _, f := range convert.Formats() {
		names = append(names, f.Name)
	}
	return names
}

func formatsHelp() string {
	var b strings.Builder
	b.WriteString("Formats:")
	for _, f := range convert.Formats() {
		fmt.Fprintf(&b, "\n  %-9s %s", f.Name, f.Help)
	}
	return b.String()
}
