package main

import (
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/cli"
	"github.com/sigma-scheduler/sigma/lab/convert"
)

func converter() *cli.Converter {
	options := convert.Defaults()
	c := &cli.Converter{Convert: func(format string, paths []string, unpacked int64, warn func(string), emit func(*trace.Trace, int) error) error {
		o := options
		o.MaxUnpacked, o.Warn = unpacked, warn
		return convert.Convert(format, paths, o, emit)
	}}
	for _, f := range convert.Formats() {
		c.Formats = append(c.Formats, cli.Format{Name: f.Name, Help: f.Help, Flags: f.Flags(&options)})
	}
	return c
}
