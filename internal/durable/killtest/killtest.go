// Package killtest kills a test process at each step of package durable, one
// after another, so that a test can check the state after each kill.
package killtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/durable"
)

const (
	variableStep = "SIGMA_KILL_AT_STEP"
	variableDir  = "SIGMA_KILL_DIR"
)

// EachStep runs prepare in this process and write in one of its own, which is
// killed at its first step, then again in a new folder with a kill at the second,
// and so on until write ends. Check sees the folder then; next is the step that a
// kill prevented, "" after the last run. EachStep returns the number of
// kills. A test or subtest may call it once; the test's code before the call runs in
// each process.
func EachStep(t *testing.T, prepare func(dir string), write func(dir string) error, check func(dir, next string)) int {
	t.Helper()
	if os.Getenv(variableStep) != "" {
		die(write)
	}
	for n := 1; ; n++ {
		dir := t.TempDir()
		prepare(dir)
		// The test binary itself, with a name from this test.
		command := exec.Command(os.Args[0], "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$")
		command.Env = append(os.Environ(), variableStep+"="+strconv.Itoa(n), variableDir+"="+dir)
		output, err := command.Output()
		var exit *exec.ExitError
		if errors.As(err, &exit) && !exit.Exited() {
			check(dir, string(output))
			continue
		}
		require.NoError(t, err, "killed at step %d: %s", n, output)
		check(dir, "")
		return n - 1
	}
}

// die runs write and kills the process at the step given in the environment.
func die(write func(dir string) error) {
	steps, err := strconv.Atoi(os.Getenv(variableStep))
	durable.Step = func(next, path string) {
		if steps--; steps == 0 {
			fmt.Print(next, " ", filepath.Base(path))
			kill()
		}
	}
	if err == nil {
		err = write(os.Getenv(variableDir))
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// kill ends the process as the system does that has no memory left.
func kill() {
	me, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = me.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {} // the signal is on its way
}
