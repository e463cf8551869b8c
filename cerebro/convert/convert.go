package convert

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// A Format is a foreign data set that can be converted.
type Format struct {
	Name    string
	Help    string   // one line
	Options []string // the fields of [Options] that it reads, as flags: large-first
	convert func(in inputs, opt Options, emit Emit) error
}

// Adding a format is one file and one line here.
var formats = []Format{tianchi, openb, azure, vbp, bppc, funsearch}

// Formats lists what [Convert] understands.
func Formats() []Format { return slices.Clone(formats) }

// Options are choices that a data set leaves open.
type Options struct {
	LargeFirst bool    // tianchi: large machines come first
	Empty      bool    // tianchi: ignore the initial deployment, every instance arrives
	List       string  // openb: the list of pods, by the end of its file's name
	Apps       float64 // tianchi: share of the apps whose instances are kept, drawn by Seed; 0 = all
	Instances  float64 // tianchi: share of these instances, drawn by Seed; 0 = all
	From       int64   // azure: second of the first row
	Until      int64   // azure: second that no row reaches, the end of observation; 0 = that of the file
	Seed       int64   // openb: of the order of pods and machines; tianchi: of apps and instances
	Load       float64 // openb: GPU demand that arrives ÷ GPUs there are
	// Warn, if set, is called for each part of the data that is left out.
	Warn func(text string)
}

// Defaults are the options of the published protocols.
func Defaults() Options { return Options{List: "default", Seed: 42, Load: 1.3} }

func (o Options) warnf(format string, args ...any) {
	if o.Warn != nil {
		o.Warn(fmt.Sprintf(format, args...))
	}
}

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
	in, err := collect(paths)
	if err == nil {
		err = formats[i].convert(in, opt, emit)
	}
	if err != nil {
		return fmt.Errorf("convert %s: %w", format, err)
	}
	return nil
}
