package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"sigma": func() { Main(Program{}) }, "kubectl-sigma": func() { Main(Program{}) }, "nats-server": natsServer})
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return Program{}.Run(ctx, args, stdout, stderr)
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "", // rewrite what cmp expects; read the diff
		Setup: func(e *testscript.Env) error {
			port, err := freePort()
			e.Setenv("PORT", port)
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "gaps": gaps},
	})
}

// exits runs a program that must end with a code: exits 2 sigma foo.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code program [args]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// gaps writes a trace of a folder without the samples of a share of its time: gaps 0.5 from to.
func gaps(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: gaps share from to")
	}
	share, err := strconv.ParseFloat(args[0], 64)
	ts.Check(err)
	t, err := trace.Load(ts.MkAbs(args[1]))
	ts.Check(err)
	u, err := t.Usage()
	ts.Check(err)
	for _, s := range u.Series {
		for i := range int(share * float64(len(s.Values))) {
			s.Values[len(s.Values)-1-i] = float32(math.NaN())
		}
	}
	t.SetUsage(u)
	t.Name = args[2]
	ts.Check(t.Write(ts.MkAbs(args[2])))
}

// An interrupted training saves the best so far and exits with 130; the same
// command resumes and ends with the bytes of a run without an interrupt.
func TestTrainInterrupted(t *testing.T) {
	dir := t.TempDir()
	sigma := func(ctx context.Context, args ...string) (code int, stderr string) {
		var out, errs bytes.Buffer
		code = run(ctx, args, &out, &errs)
		return code, errs.String()
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	code, stderr := sigma(t.Context(), "generate", "small", "--out", file("trace"))
	require.Equal(t, exitOK, code, stderr)
	train := func(ctx context.Context, folder string) (int, string) {
		return sigma(ctx, "train", "--trace", file("trace"), "--orders", "12", "--evaluations", "500", "--quiet",
			"--checkpoint", file(folder), "--log", file(folder+".csv"), "--out", file(folder+"/policy.yaml"))
	}
	read := func(name string) string {
		text, err := os.ReadFile(file(name))
		require.NoError(t, err)
		return string(text)
	}
	require.NoError(t, os.Mkdir(file("whole"), 0o755))
	require.NoError(t, os.Mkdir(file("cut"), 0o755))
	code, stderr = train(t.Context(), "whole")
	require.Equal(t, exitOK, code, stderr)

	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for ctx.Err() == nil { // until the second generation is in the log
			text, err := os.ReadFile(file("cut.csv"))
			if err == nil && bytes.Count(text, []byte("\n")) > 2 {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	code, stderr = train(ctx, "cut")
	require.Equal(t, exitInterrupted, code, stderr)
	require.Contains(t, stderr, "holds the best so far")
	require.Contains(t, read("cut/policy.yaml"), "stop: interrupted")

	code, stderr = train(t.Context(), "cut")
	require.Equal(t, exitOK, code, stderr)
	require.Equal(t, read("whole/policy.yaml"), read("cut/policy.yaml"))
	require.Equal(t, read("whole.csv"), read("cut.csv"))
}

func TestComparisonInterrupted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace")
	var out, errs bytes.Buffer
	require.Equal(t, exitOK, run(t.Context(), []string{"generate", "small", "--out", path}, &out, &errs), errs.String())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out.Reset()
	code := run(ctx, []string{"compare", "--trace", path, "--policy", "firstfit"}, &out, &errs)
	require.Equal(t, exitInterrupted, code)
	require.Empty(t, out.String())
}

// writeSizes writes a trace of n items of sizes 20 to 100 for bins of 150, whose optimum is hard to prove.
func writeSizes(t *testing.T, dir string, n int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 5))
	apps, events := "app,group,types,size,max_per_machine,spread_min,expected,lifetime\n", "time,kind,request,app,count\n"
	for size := 20; size <= 100; size++ {
		apps += fmt.Sprintf("%d,,,%d,,,,\n", size, size)
	}
	for i := range n {
		events += fmt.Sprintf("%d,create,r%d,%d,1\n", i, i, 20+rng.IntN(81))
	}
	require.NoError(t, os.Mkdir(dir, 0o755))
	for name, text := range map[string]string{
		"trace.yaml":   "name: sizes\ndimensions: [size]\nfleet: open\n",
		"machines.csv": "machine,type,count,cost,size\nbin,bin,,1,150\n",
		"apps.csv":     apps, "events.csv": events, "rules.csv": "app,other,max\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
}

// An interrupted plan is written as far as it came: complete, if not as good.
func TestPlanInterrupted(t *testing.T) {
	dir := t.TempDir()
	path, file := filepath.Join(dir, "trace"), filepath.Join(dir, "placements.csv")
	var out, errs bytes.Buffer
	writeSizes(t, path, 2000)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, exitInterrupted, run(ctx, []string{"plan", "--trace", path, "--placements", file, "--steps", "1000000000"}, &out, &errs), errs.String())
	require.Contains(t, errs.String(), "holds the best plan so far")
	require.Contains(t, out.String(), "not proven")
	placements, err := trace.ReadPlacements(file)
	require.NoError(t, err)
	require.Len(t, placements, 2000)
	for _, p := range placements {
		require.Equal(t, trace.Place, p.Kind)
	}
}

// With a solver that is installed or not: here one that says what a file holds.
func TestPlanProve(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	file("t/trace.yaml", "name: t\ndimensions: [cpu]\ndevices: []\nfleet: open\n", 0o644)
	file("t/machines.csv", "machine,type,count,cost,cpu\nm,,,1,100\n", 0o644)
	file("t/apps.csv", "app,group,types,cpu,max_per_machine,spread_min,expected,lifetime\na,,,35,,,,\nb,,,34,,,,\n", 0o644)
	file("t/events.csv", "time,kind,request,app,count\n0,create,x,a,4\n0,create,y,b,3\n", 0o644)
	sigma := func(args ...string) (code int, stdout, stderr string) {
		var out, errs bytes.Buffer
		code = run(t.Context(), append([]string{"plan", "--trace", filepath.Join(dir, "t"), "--effort", "0"}, args...), &out, &errs)
		return code, out.String(), errs.String()
	}
	t.Setenv("PATH", filepath.Join(dir, "bin")+":/bin:/usr/bin")
	for name, c := range map[string]struct {
		solver string
		code   int
		want   string
	}{
		"optimal": {"printf 'Optimal - objective value 4\\n' >$6", exitOK, " 4 +4 +[34] +4 +cbc +0 +proven optimal"},
		"stopped": {"printf 'Stopped on time - objective value 3.1\\n' >$6", exitOK, " 4 +4 +3 +3 +volume +0 +not proven"},
		// All on one machine costs less and is no packing.
		"wrong":  {"printf 'Optimal - objective value 1\\n 0 x0_0 4 0\\n 1 x1_0 3 0\\n' >$6", exitOK, "not proven"},
		"broken": {"echo no licence; exit 3", exitFailed, "no licence"},
		"silent": {"exit 0", exitFailed, "no solution was written"},
	} {
		t.Run(name, func(t *testing.T) {
			file("bin/cbc", "#!/bin/sh\ntest -s \"$1\" || exit 9\n"+c.solver+"\n", 0o755)
			code, stdout, stderr := sigma("--prove", "cbc")
			require.Equal(t, c.code, code, stderr)
			require.Regexp(t, c.want, stdout+stderr)
		})
	}
	t.Setenv("PATH", filepath.Join(dir, "t"))
	code, _, stderr := sigma("--prove", "cbc")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "there is no program cbc on the PATH")
	code, _, stderr = sigma("--prove", "scip")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, `unknown prove "scip"`)
}
