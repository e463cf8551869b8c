package main

import (
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/cli"
	"github.com/sigma-scheduler/sigma/lab/convert"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"sigma-lab": main, "sigma": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// The product names the laboratory's command for each public set.
func TestPublicSets(t *testing.T) {
	var names []string
	for _, f := range convert.Formats() {
		names = append(names, f.Name)
	}
	require.Equal(t, names, cli.PublicSets)
}

// exits runs a program that must end with a code: exits 2 sigma-lab foo.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if exit, failed := ts.Exec(args[1], args[2:]...).(*exec.ExitError); failed { //nolint:errorlint // as testscript returns it
		got = exit.ExitCode()
	}
	if neg || got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}
