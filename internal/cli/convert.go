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

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/plural"
)

// PublicSets are the formats that the laboratory converts.
var PublicSets = []string{"tianchi", "openb", "azure", "vbp", "bppc", "funsearch", "roadef", "gwa-t-12", "planetlab"}

// A Converter turns public data sets into traces.
type Converter struct {
	Formats []Format
	// Convert hands each trace found to emit, with the number of all; nothing is unpacked beyond unpacked bytes.
	Convert func(format string, paths []string, unpacked int64, warn func(string), emit func(t *trace.Trace, of int) error) error
}

// A Format is a public data set; the values of its flags are the converter's.
type Format struct {
	Name, Help string // of one line
	Flags      *flag.FlagSet
}

func (a *app) convert() *cobra.Command {
	if a.program.Converter != nil {
		return a.convertSets(a.program.Converter())
	}
	cmd := &cobra.Command{
		Use:                "convert log|usage PATH… --out DIR",
		Short:              "Turn a decision log, or a trace with usage, into a trace",
		DisableFlagParsing: true, // those of a public set are the laboratory's
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case slices.Contains(args, "-h") || slices.Contains(args, "--help"):
				return cmd.Help()
			case len(args) == 0:
				return usagef("a FORMAT is missing; there are log and usage")
			}
			if i := slices.IndexFunc(args, func(arg string) bool { return slices.Contains(PublicSets, arg) }); i >= 0 {
				return usagef("%s is a public data set, which the laboratory converts: make lab && bin/sigma-lab convert %s", args[i], strings.Join(args, " "))
			}
			return unknown("format", args[0], []string{"log", "usage"})
		},
	}
	cmd.AddCommand(a.convertLog(), a.convertUsage())
	return cmd
}

func (a *app) convertSets(c *Converter) *cobra.Command {
	var out string
	var quiet bool
	names := c.names()
	cmd := &cobra.Command{
		Use:   "convert FORMAT PATH… --out DIR",
		Short: "Turn a public data set, or a decision log, into traces",
		Long: `Convert reads the files of a public data set, or folders of them (.gz too), and
writes a trace. A set of several instances becomes one trace folder each.

` + c.help() + `
  log       decision logs of a live scheduler: see "sigma-lab convert log --help"`,
		Example: `  sigma-lab convert funsearch weibull-5k.json --out traces/weibull
  sigma-lab convert tianchi data/tianchi --large-first --out traces/tianchi
  sigma-lab convert openb data/openb --list gpushare40 --seed 43 --out traces/openb-43`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return usagef("a FORMAT is missing; there are %s", strings.Join(append(names, "log", "usage"), ", "))
			case !slices.Contains(names, args[0]):
				return unknown("format", args[0], append(names, "log", "usage"))
			case len(args) == 1:
				return usagef("a PATH is missing: the files of the data set, or their folder")
			}
			return nil
		},
		ValidArgs: names,
		RunE: a.do(func(cmd *cobra.Command, args []string) error {
			if err := required(cmd, "out"); err != nil {
				return err
			}
			if err := c.onlyOptionsOf(cmd, args[0]); err != nil {
				return err
			}
			return a.convertTo(cmd.Context(), c, args[0], args[1:], out, quiet)
		}),
	}
	cmd.AddCommand(a.convertLog(), a.convertUsage())
	flags := cmd.Flags()
	flags.StringVar(&out, "out", "", "folder to write (a trace of the same format in it is replaced)")
	a.unpackedFlag(flags)
	quietFlag(flags, &quiet)
	for _, f := range c.Formats {
		f.Flags.VisitAll(func(option *flag.Flag) {
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
func (a *app) convertTo(ctx context.Context, c *Converter, format string, paths []string, out string, quiet bool) error {
	several := false
	show := a.newProgress(0, "trace", quiet)
	defer func() { show.end() }()
	show.set(0, "reading")
	warn := func(text string) { show.print(a.stderr, text) }
	err := c.Convert(format, paths, int64(a.maxUnpacked), warn, func(t *trace.Trace, of int) error {
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
	show = a.newProgress(0, "trace", quiet)
	// The first pass has warned.
	return c.Convert(format, paths, int64(a.maxUnpacked), nil, func(t *trace.Trace, of int) error {
		if ctx.Err() != nil {
			return interrupted("%d of %s written, all complete", show.count(), plural.Of(of, "trace"))
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
func (c *Converter) onlyOptionsOf(cmd *cobra.Command, format string) error {
	readers := map[string][]string{} // formats by option
	for _, f := range c.Formats {
		f.Flags.VisitAll(func(option *flag.Flag) {
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

func (c *Converter) names() []string {
	var names []string
	for _, f := range c.Formats {
		names = append(names, f.Name)
	}
	return names
}

func (c *Converter) help() string {
	var b strings.Builder
	b.WriteString("Formats:")
	for _, f := range c.Formats {
		fmt.Fprintf(&b, "\n  %-9s %s", f.Name, f.Help)
	}
	return b.String()
}
