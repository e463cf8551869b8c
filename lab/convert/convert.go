package convert

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// A Format is a foreign data set that can be converted.
type Format struct {
	Name    string
	Help    string                                // one line
	options func(flags *flag.FlagSet, o *Options) // declares what it reads of [Options]; nil = nothing
	convert func(in inputs, opt Options, emit Emit) error
}

// Flags are the options that the format reads, with o for their values. They get their
// defaults.
func (f Format) Flags(o *Options) *flag.FlagSet {
	flags := flag.NewFlagSet(f.Name, flag.ContinueOnError)
	if f.options != nil {
		f.options(flags, o)
	}
	return flags
}

// Adding a format is one file and one line here.
var formats = []Format{tianchi, openb, azure, vbp, bppc, funsearch, roadef, gwa, planetlab}

// Formats lists what [Convert] understands.
func Formats() []Format { return slices.Clone(formats) }

// Options are choices that a data set leaves open. Each format declares which it
// reads, and what they mean there. The zero value is not the default: see [Defaults].
type Options struct {
	LargeFirst, Empty bool
	List              string
	Apps, Instances   float64
	From, Until       int64
	Seed              int64
	Load              float64
	NodeGHz           float64
	NodeCores         float64
	MaxUnpacked       int64 // bytes that all .gz files hold, at most; 0 = [trace.DefaultUnpacked]
	// Warn, if set, is called for each part of the data that is left out.
	Warn func(text string)
}

// Defaults are the options of the published protocols.
func Defaults() Options {
	var o Options
	for _, f := range formats {
		f.Flags(&o)
	}
	return o
}

func (o Options) warnf(format string, args ...any) {
	if o.Warn != nil {
		o.Warn(fmt.Sprintf(format, args...))
	}
}

// defaultSeed is that of the openb protocol.
const defaultSeed = 42

// Emit gets one trace; of is how many there are. Traces come in order, and their names
// sort in that order.
type Emit func(t *trace.Trace, of int) error

// Convert reads files, or folders of files, and hands each trace found to
// emit. Files may be compressed (.gz) and are recognised by their usual names.
func Convert(format string, paths []string, opt Options, emit Emit) error {
	i := slices.IndexFunc(formats, func(f Format) bool { return f.Name == format })
	if i < 0 {
		var names []string
		for _, f := range formats {
			names = append(names, f.Name)
		}
		return fmt.Errorf("convert: unknown format %q; there are %s", format, strings.Join(names, ", "))
	}
	in, err := collect(paths, cmp.Or(opt.MaxUnpacked, trace.DefaultUnpacked))
	if err == nil {
		err = formats[i].convert(in, opt, emit)
	}
	if err != nil {
		return fmt.Errorf("convert %s: %w", format, err)
	}
	return nil
}
