package cputime

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// spin uses the processor for so many seconds of this thread.
func spin(seconds float64) {
	for begin := Thread(); Thread()-begin < seconds; {
	}
}

// What TestOfProcesses starts: it works in a thread that ends, prints a line, and waits.
func TestChild(t *testing.T) {
	if os.Getenv("CPUTIME_CHILD") == "" {
		t.Skip("a process of TestOfProcesses")
	}
	require.NoError(t, exec.Command("sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done").Run())
	spin(.2)
	_, _ = os.Stdout.WriteString("done\n")
	time.Sleep(time.Hour)
}

// A process that runs, one that ended, and this one have one clock. What a process waited for
// counts when it has ended, and in All.
func TestOfProcesses(t *testing.T) {
	child := exec.Command(os.Args[0], "-test.run=^TestChild$")
	child.Env = append(os.Environ(), "CPUTIME_CHILD=1")
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	_, err = out.Read(make([]byte, 1))
	require.NoError(t, err)
	running, err := Of(child.Process.Pid)
	require.NoError(t, err)
	require.Greater(t, running, .2)

	before, own := All(), Process()
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())
	ended := Ended(child.ProcessState)
	require.Greater(t, ended, running+.01, "with the shell that it waited for")
	require.InDelta(t, ended, All()-before-(Process()-own), .01)
	_, err = Of(child.Process.Pid)
	require.Error(t, err, "it is gone")
	require.Zero(t, Ended(nil))
}
