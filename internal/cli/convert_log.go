package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/plural"
	"github.com/sigma-scheduler/sigma/plugins/history"
)

// convertLogFlags are the flags of convert log.
type convertLogFlags struct {
	out, from, until, fleet string
}

func (a *app) convertLog() *cobra.Command {
	var f convertLogFlags
	cmd := &cobra.Command{
		Use:   "log FILE… --out DIR",
		Short: "Turn what a live scheduler recorded into a trace",
		Long: `Convert log reads the decision log of a live scheduler, or the recording of
"sigma snapshot --watch", and writes a trace: every stay of a pod on a node, from
its decision, or from when it was found there, until it left. The files of one log
are given in order; versions 1 and 2 are read.

--from and --until cut a window out of the log: a time by RFC 3339, or a duration
after the first event of the log, such as 36h. What stood at --from is the trace's
initial state; --until itself is not part of the window. Time 0 of the trace is
--from, or else the first event.

With "sigma compare --trace DIR --policy current,bestfit,learned" the policy
current repeats what the scheduler did.`,
		Example: `  sigma convert log decisions.jsonl --out recorded
  sigma convert log monday.jsonl tuesday.jsonl --from 24h --until 48h --out tuesday
  sigma convert log decisions.jsonl --from 2026-05-04T08:00:00Z --out recorded`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("a FILE is missing: a decision log")
			}
			return nil
		},
		RunE: a.do(func(cmd *cobra.Command, args []string) error {
			if err := required(cmd, "out"); err != nil {
				return err
			}
			return a.convertLogTo(cmd, args, f)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.out, "out", "", "folder, or .tar.gz file, to write the trace to")
	flags.StringVar(&f.from, "from", "", "begin here: a time, or a duration after the beginning of the log (default its beginning)")
	flags.StringVar(&f.until, "until", "", "end before here: likewise (default the log's end)")
	flags.StringVar(&f.fleet, "fleet", "", "open: empty nodes stay empty as long as possible; fixed: all nodes are candidates (default the scheduler's)")
	return cmd
}

func (a *app) convertLogTo(cmd *cobra.Command, paths []string, f convertLogFlags) error {
	from, err := history.ParseTime(f.from)
	if err != nil {
		return usagef("--from %v", err)
	}
	before, err := history.ParseTime(f.until)
	if err != nil {
		return usagef("--until %v", err)
	}
	if f.fleet != "" {
		if err := oneOf("fleet", f.fleet, "open", "fixed"); err != nil {
			return err
		}
	}
	out := filepath.Clean(f.out)
	name, archive := strings.CutSuffix(filepath.Base(out), ".tar.gz")
	var t *trace.Trace
	var notes []string
	err = until(cmd.Context(), func() error {
		h, err := history.Read(paths, from, before)
		if err != nil {
			return err
		}
		t, notes, err = h.Trace(history.Options{Name: name, Fleet: f.fleet, Method: "sigma convert log"})
		return err
	})
	if err != nil {
		return err
	}
	if err := replaceable(t, out); err != nil {
		return err
	}
	for _, note := range notes {
		fmt.Fprintln(a.stderr, note)
	}
	if archive {
		err = t.WriteTarGz(out)
	} else {
		err = t.Write(out)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%s: %s, %s, %s initially, %s later\n", f.out, plural.Of(len(t.Instance.Machines), "node"),
		plural.Of(len(t.Instance.Apps), "app"), plural.Of(t.Initial, "pod"), plural.Of(len(t.Requests)-t.Initial, "pod"))
	return nil
}
