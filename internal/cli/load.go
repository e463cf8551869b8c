package cli

import (
	"errors"
	"fmt"
	"math"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/savings"
)

// A size is a flag with a number of bytes, such as 4GiB.
type size int64

func (s *size) String() string { return humanize.IBytes(uint64(*s)) }
func (s *size) Type() string   { return "size" }

func (s *size) Set(text string) error {
	n, err := humanize.ParseBytes(text)
	if err != nil || n < 1 || n > math.MaxInt64 {
		return errors.New("want a size such as 4GiB")
	}
	*s = size(n)
	return nil
}

// unpackedFlag adds the flag of every command that reads traces or data sets.
func (a *app) unpackedFlag(flags *pflag.FlagSet) {
	a.maxUnpacked = trace.DefaultUnpacked
	flags.Var(&a.maxUnpacked, "max-unpacked", "refuse packed files (.tar.gz, .gz) that hold more")
}

// unpackedHint names the flag where its limit is the cause.
func unpackedHint(err error) error {
	if _, ok := errors.AsType[*trace.UnpackedError](err); ok {
		return fmt.Errorf("%w; --max-unpacked sets the limit", err)
	}
	return err
}

// loadTrace reads one trace.
func (a *app) loadTrace(path string) (*trace.Trace, error) {
	traces, err := a.loadTraces([]string{path})
	if err != nil {
		return nil, err
	}
	if len(traces) > 1 {
		return nil, usagef("%s holds %d traces: say which", path, len(traces))
	}
	return traces[0], nil
}

// loadTraces reads the traces at paths, each a trace or a folder of traces. A command prints
// the number of machines of a trace by use beside its risk.
func (a *app) loadTraces(paths []string) ([]*trace.Trace, error) {
	var all []*trace.Trace
	for _, path := range paths {
		traces, err := trace.LoadAll(path, int64(a.maxUnpacked))
		if err != nil {
			return nil, unpackedHint(err)
		}
		all = append(all, traces...)
	}
	if a.after != "" && len(all) > 1 {
		return nil, usagef("--after %s: want one trace", a.after)
	}
	for i, t := range all {
		if a.present {
			var err error
			if all[i], err = savings.Present(t, a.after); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// presentFlag adds --present to a command that reads traces.
func (a *app) presentFlag(flags *pflag.FlagSet) {
	flags.BoolVar(&a.present, "present", false, "place the pods that run now again, without those that wait; those that must not move, or that find no other place, stay (see sigma savings)")
	flags.Func("after", "as --present, after the moves of a `FILE` of sigma rebalance", func(path string) error {
		a.after = path
		return flags.Set("present", "true")
	})
}
