package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"sigma": main, "nats-server": natsServer})
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
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
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

// An interrupted training saves the best so far and exits with 130; the same
// command goes on and ends with the bytes of a run that nobody interrupted.
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

// An interrupted plan is written as far as it came: complete, if not as good.
func TestPlanInterrupted(t *testing.T) {
	dir := t.TempDir()
	path, file := filepath.Join(dir, "trace"), filepath.Join(dir, "placements.csv")
	var out, errs bytes.Buffer
	require.Equal(t, exitOK, run(t.Context(), []string{"generate", "weibull", "--set", "n=2000", "--out", path}, &out, &errs), errs.String())
	out.Reset()
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
