package cli

import (
	"bytes"
	"context"
	"flag"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// wait lets fake time pass and the ticker write.
func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// written is what a progress has written so far.
func written(p *progress, out *bytes.Buffer) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return out.String()
}

func empty(p *progress, out *bytes.Buffer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out.Reset()
}

// In a pipe: a line a minute, none for what is quick, none after the end.
func TestProgressInPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := startProgress(&out, 0, 400, "replay")
		defer p.end()
		p.set(30, "")
		wait(59 * time.Second)
		require.Empty(t, written(p, &out))
		wait(2 * time.Second)
		require.Equal(t, "30 of 400 replays (7 %), 30 a minute, 12m20s to go\n", written(p, &out))
		p.set(240, "best 1.25")
		wait(time.Minute)
		require.Equal(t, "240 of 400 replays (60 %), 2 a second, best 1.25, 1m20s to go\n", strings.SplitAfter(written(p, &out), "\n")[1])
		p.end()
		p.end()
		wait(5 * time.Minute)
		require.Equal(t, 2, strings.Count(written(p, &out), "\n"))
	})
}

// On a terminal: one line that is rewritten, cut to the width, and cleared.
func TestProgressOnTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := startProgress(&out, 30, 0, "trace")
		defer p.end()
		p.set(1, "reading")
		wait(250 * time.Millisecond)
		require.Equal(t, "\r\x1b[K1 trace so far, reading, 0s", written(p, &out))
		p.print(&out, "something else")
		require.True(t, strings.HasSuffix(written(p, &out), "0s\r\x1b[Ksomething else\n"))
		p.expect(5)
		p.add()
		empty(p, &out)
		wait(2 * time.Second)
		lines := strings.Split(written(p, &out), "\r\x1b[K")
		require.Len(t, lines, 11) // ten rewrites of one line
		require.Equal(t, "2 of 5 traces (40 %), 1.43 a ", lines[6])
		for _, line := range lines {
			require.Less(t, len(line), 30)
		}
		require.NotContains(t, written(p, &out), "\n")
		p.end()
		require.True(t, strings.HasSuffix(written(p, &out), "\r\x1b[K"))
	})
}

func TestProgressQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app := &app{stderr: nil}
		p := app.newProgress(4, "trace", true)
		p.add()
		wait(time.Hour)
		p.end()
		require.Equal(t, 1, p.count())
	})
}

func TestProgressText(t *testing.T) {
	for _, c := range []struct {
		done, total int
		spent       time.Duration
		want        string
	}{
		{0, 7, 3 * time.Second, "0 of 7 items, 3s so far"},
		{9, 7, time.Second, "7 of 7 items (100 %), 7 a second, 0s to go"},
		{1, 2, 400 * time.Second, "1 of 2 items (50 %), 9 an hour, 6m40s to go"},
		{500_000, 1_000_000, time.Second, "500000 of 1000000 items (50 %), 500000 a second, 1s to go"},
		{3, 7, 0, "3 of 7 items (42 %), 3000 a second, 0s to go"},
	} {
		p := &progress{done: c.done, total: c.total, unit: "item"}
		require.Equal(t, c.want, p.text(c.spent))
	}
}

// cancelWriter interrupts when a line is written to it.
type cancelWriter struct {
	bytes.Buffer

	cancel context.CancelFunc
}

func (w *cancelWriter) Write(p []byte) (int, error) {
	w.cancel()
	return w.Buffer.Write(p)
}

// twoTraces is a converter that finds two.
func twoTraces() *Converter {
	return &Converter{
		Formats: []Format{{Name: "openb", Flags: flag.NewFlagSet("", flag.ContinueOnError)}},
		Convert: func(_ string, _ []string, _ int64, _ func(string), emit func(*trace.Trace, int) error) error {
			for seed := range uint64(2) {
				t, err := generate.Generate("small", seed, nil)
				if err != nil {
					return err
				}
				if err := emit(t, 2); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// An interrupted generate or convert keeps the traces that are complete, and
// says how many.
func TestTracesInterrupted(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{
		{"generate", "small", "--count", "2", "--out", filepath.Join(dir, "generated")},
		{"convert", "openb", "file", "--out", filepath.Join(dir, "converted")},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		out := &cancelWriter{cancel: cancel}
		var errs bytes.Buffer
		require.Equal(t, exitInterrupted, Program{Converter: twoTraces}.Run(ctx, args, out, &errs), errs.String())
		require.Equal(t, "sigma: interrupted: 1 of 2 traces written, all complete\n", errs.String())
		traces, err := trace.LoadAll(args[len(args)-1], trace.DefaultUnpacked)
		require.NoError(t, err)
		require.Len(t, traces, 1)
	}
}

// An interrupted comparison or replay prints nothing, writes nothing, and says
// how far it was.
func TestNothingHalfWritten(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "trace")
	var out, errs bytes.Buffer
	require.Equal(t, exitOK, run(t.Context(), []string{"generate", "small", "--out", path}, &out, &errs), errs.String())
	for _, args := range [][]string{
		{"compare", "--trace", path, "--policy", "hand", "--orders", "5000", "--report", filepath.Join(dir, "r.html")},
		{"replay", "--trace", path, "--policy", "hand", "--placements", filepath.Join(dir, "p.csv")},
		{"explain", "--trace", path, "--policy", "hand", "--request", "r00002"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if args[0] == "compare" {
			time.AfterFunc(50*time.Millisecond, cancel)
		} else {
			cancel()
		}
		out.Reset()
		errs.Reset()
		code := run(ctx, args, &out, &errs)
		if args[0] != "compare" && code == exitOK {
			continue // it was through before the interrupt was looked at
		}
		require.Equal(t, exitInterrupted, code)
		require.Empty(t, out.String())
		if args[0] == "compare" {
			require.Regexp(t, `^sigma: interrupted: \d+ of 5001 replays done, and nothing written\n$`, errs.String())
		} else {
			require.Regexp(t, `^sigma: interrupted: .*nothing w`, errs.String())
		}
	}
	require.NoFileExists(t, filepath.Join(dir, "r.html"))
}

// The progress of a replay does not change it.
func TestReplayWithProgress(t *testing.T) {
	tr, err := (&app{maxUnpacked: trace.DefaultUnpacked}).loadTrace("../../docs/examples/hello")
	require.NoError(t, err)
	app := &app{stderr: &bytes.Buffer{}}
	decisions := 0
	options := cerebro.Options{Retry: true, Record: func(cerebro.Decision) { decisions++ }}
	got, err := app.runUntil(t.Context(), cerebro.NewReplayer(tr), rule.BestFit{}, options, false)
	require.NoError(t, err)
	want, err := cerebro.NewReplayer(tr).Run(rule.BestFit{}, cerebro.Options{Retry: true})
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Positive(t, decisions)
}
