package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/plural"
)

func (a *app) generate() *cobra.Command {
	var (
		seed  uint64
		count int
		out   string
		set   []string
		quiet bool
	)
	cmd := &cobra.Command{
		Use:   "generate KIND --out DIR",
		Short: "Make a standard instance as a trace",
		Long: `Generate makes a trace of a kind from a seed. The same kind, seed and parameters
give the same bytes. Seeds from 900000 up are for tests: training refuses them.

` + kindsHelp(),
		Example: `  sigma generate small --seed 1 --out traces/small-1
  sigma generate small --seed 1 --count 20 --out traces/train    # seeds 1 to 20
  sigma generate large --seed 900000 --set scale=.2 --out traces/large`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 && slices.Contains(kindNames(), args[0]) {
				return nil
			}
			if len(args) == 0 {
				return usagef("a KIND is missing; there are %s", strings.Join(kindNames(), ", "))
			}
			if len(args) > 1 {
				return usagef("one KIND at a time, not %q", args)
			}
			if slices.Contains(generate.Laboratory, args[0]) {
				return usagef("%s is a kind of the laboratory: make lab && bin/sigma-lab generate %s", args[0], args[0])
			}
			return unknown("kind", args[0], kindNames())
		},
		ValidArgs: kindNames(),
		RunE: a.do(func(cmd *cobra.Command, args []string) error {
			if err := required(cmd, "out"); err != nil {
				return err
			}
			parameters, err := parseSet(set)
			if err != nil {
				return err
			}
			if count < 1 {
				return usagef("--count %d: want at least 1", count)
			}
			show := a.newProgress(count, "trace", quiet)
			defer show.end()
			for i := range count {
				if cmd.Context().Err() != nil {
					return interrupted("%d of %s written, all complete", i, plural.Of(count, "trace"))
				}
				t, err := generate.Generate(args[0], seed+uint64(i), parameters)
				if err != nil {
					return &usageError{err}
				}
				path := out
				if cmd.Flags().Changed("count") {
					path = filepath.Join(out, t.Name)
				}
				if err := a.write(show, t, path); err != nil {
					return err
				}
				show.add()
			}
			return nil
		}),
	}
	flags := cmd.Flags()
	flags.Uint64Var(&seed, "seed", 1, "of everything random")
	flags.IntVar(&count, "count", 1, "make this many, with consecutive seeds, as folders <kind>-<seed> below --out")
	flags.StringVar(&out, "out", "", "folder to write (a generated trace in it is replaced), or a file ending in .tar.gz")
	quietFlag(flags, &quiet)
	flags.StringArrayVar(&set, "set", nil, "name=value: a parameter of the kind (repeatable)")
	return cmd
}

func kindNames() []string {
	var names []string
	for _, k := range generate.Kinds() {
		names = append(names, k.Name)
	}
	return names
}

func kindsHelp() string {
	var b strings.Builder
	b.WriteString("Kinds, and their parameters for --set:")
	for _, k := range generate.Kinds() {
		fmt.Fprintf(&b, "\n  %-10s %s", k.Name, k.Help)
		for _, p := range k.Params {
			value := any(p.Default)
			if p.Words != nil {
				value = p.Words[int(p.Default)]
			}
			fmt.Fprintf(&b, "\n  %-10s   %s=%v  %s", "", p.Name, value, p.Help)
		}
	}
	return b.String()
}

func parseSet(set []string) (map[string]string, error) {
	parameters := map[string]string{}
	for _, s := range set {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			return nil, usagef("--set %s: want name=value", s)
		}
		if _, twice := parameters[name]; twice {
			return nil, usagef("--set %s: %s is set twice", s, name)
		}
		parameters[name] = value
	}
	return parameters, nil
}

// write writes a trace as a folder or a .tar.gz file, and one line about it.
func (a *app) write(show *progress, t *trace.Trace, path string) error {
	if err := replaceable(t, path); err != nil {
		return err
	}
	write := t.Write
	if strings.HasSuffix(path, ".tar.gz") {
		write = t.WriteTarGz
	}
	if err := write(path); err != nil {
		return err
	}
	items := 0
	for _, q := range t.Requests {
		items += int(q.Count)
	}
	show.print(a.stdout, fmt.Sprintf("%s: %s, %s, %s", path,
		plural.Of(items, "item"), plural.Of(len(t.Instance.Apps), "app"), plural.Of(len(t.Events), "event")))
	return nil
}

// replaceable refuses to overwrite a trace of another origin, such as one written by
// hand.
func replaceable(t *trace.Trace, path string) error {
	text, err := os.ReadFile(filepath.Join(path, "trace.yaml"))
	if err != nil {
		return nil //nolint:nilerr // no trace folder: writing reports any other error
	}
	var old struct {
		Source struct {
			Origin any `yaml:"origin"`
		} `yaml:"source"`
	}
	if err := yaml.Unmarshal(text, &old); err != nil || old.Source.Origin != t.Source["origin"] {
		return usagef("%s holds a trace that is not %v: give --out another folder, or remove that one first", path, t.Source["origin"])
	}
	return nil
}
