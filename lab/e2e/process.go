//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/cputime"
)

// grace is the time between SIGTERM and SIGKILL for a program.
const grace = 30 * time.Second

// A Process is a program under test. It dies with the test binary, however that
// ends, and a test during which it ends by itself fails.
type Process struct {
	Name string
	Log  string // file of both its outputs, appended to by restarts

	program string
	args    []string
	env     []string       // in addition to our own
	death   syscall.Signal // the signal that the kernel sends when we die
	mu      sync.Mutex     // of what follows, which a restart replaces
	command *exec.Cmd
	begun   time.Time
	ended   chan struct{} // closed when it has ended
	ending  bool          // the test ends it
	kept    bool          // it is supervised
}

// The kernel sends Pdeathsig when the thread that forked ends, not the process:
// one thread forks all children and never ends.
var forks = make(chan func())

func init() {
	go func() {
		runtime.LockOSThread()
		for fork := range forks {
			fork()
		}
	}()
}

// running holds the processes that Main has to end.
var running sync.Map // *Process → true

// StartProcess starts a program that ends with the test. On failure the end of
// its log is printed, and the whole is kept in out/e2e/failed.
func StartProcess(t testing.TB, name, program string, args ...string) *Process {
	t.Helper()
	return startProcessWith(t, nil, name, program, args...)
}

// startProcessWith is StartProcess with variables of the environment, name=value, besides ours.
func startProcessWith(t testing.TB, env []string, name, program string, args ...string) *Process {
	t.Helper()
	p := &Process{
		Name: name, Log: filepath.Join(scratch(t), name+".log"),
		program: program, args: args, env: env, death: syscall.SIGKILL,
	}
	require.NoError(t, p.start())
	if base := filepath.Base(program); base == "sigma-scheduler" || base == "sigma-extender" {
		compareStates(t, p)
	}
	t.Cleanup(func() {
		if !p.ending && !p.kept && !p.Alive() {
			t.Errorf("%s ended by itself: %v", name, p.command.ProcessState)
		}
		p.end()
		if t.Failed() {
			p.report(t)
		}
	})
	return p
}

func (p *Process) start() error {
	out, err := os.OpenFile(p.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // the child has its own
	command := exec.Command(p.program, p.args...)
	command.Stdout, command.Stderr = out, out
	if p.env != nil {
		command.Env = append(os.Environ(), p.env...)
	}
	// A group of its own: a terminal's ^C is for us, and we end them in order.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: p.death}
	started := make(chan error)
	forks <- func() { started <- command.Start() }
	err = <-started
	p.mu.Lock()
	p.command, p.begun = command, time.Now()
	p.mu.Unlock()
	if err != nil {
		return fmt.Errorf("starting %s: %w", p.Name, err)
	}
	ended := make(chan struct{})
	p.mu.Lock()
	p.ended, p.ending = ended, false
	p.mu.Unlock()
	running.Store(p, true)
	go func() {
		_ = command.Wait() // its status is in ProcessState
		close(ended)
	}()
	return nil
}

// compareStates has a program compare its packing state with its informers while the test
// runs. A difference fails the test.
func compareStates(t testing.TB, p *Process) {
	t.Helper()
	done := make(chan bool)
	go func() {
		tick := time.NewTicker(2 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				p.mu.Lock()
				if time.Since(p.begun) > 10*time.Second { // until a program listens for it, the signal ends it
					_ = p.command.Process.Signal(syscall.SIGUSR2) // it may have ended
				}
				p.mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() {
		close(done)
		log, err := os.ReadFile(p.Log)
		if err != nil {
			t.Errorf("log of %s: %v", p.Name, err)
		}
		for line := range strings.Lines(string(log)) {
			if strings.Contains(line, "The packing state differs from the cluster") {
				t.Errorf("sigma_state_divergence of %s is not 0: %s", p.Name, line)
			}
		}
	})
}

// Supervise starts the process again a second after it ended, however that was, until the test
// ends: as the kubelet does with a container of a Deployment. starts counts how often it has.
func (p *Process) Supervise(t testing.TB) (starts func() int) {
	t.Helper()
	p.kept = true
	var count atomic.Int32
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		for {
			p.mu.Lock()
			ended := p.ended
			p.mu.Unlock()
			select {
			case <-done:
				return
			case <-ended:
			}
			select {
			case <-done:
				return
			case <-time.After(time.Second):
			}
			if err := p.start(); err != nil {
				t.Errorf("%s: %v", p.Name, err)
				return
			}
			count.Add(1)
		}
	}()
	t.Cleanup(func() { close(done); <-gone })
	return func() int { return int(count.Load()) }
}

// end ends the process and returns when it has ended.
func (p *Process) end() {
	defer running.Delete(p)
	p.ending = true
	_ = p.command.Process.Signal(syscall.SIGTERM)
	_ = p.command.Process.Signal(syscall.SIGCONT) // stopped, it could not act on the first
	select {
	case <-p.ended:
	case <-time.NewTimer(grace).C:
		_ = p.command.Process.Kill()
		<-p.ended
	}
}

// waitOK waits until a page of the process answers 200.
func (p *Process) waitOK(t testing.TB, get func() (*http.Response, error)) {
	t.Helper()
	Wait(t, p.Name, func() (string, bool) {
		if !p.Alive() {
			t.Fatalf("%s ended before it was ready", p.Name)
		}
		response, err := get()
		if err != nil {
			return err.Error(), false
		}
		_ = response.Body.Close()
		return response.Status, response.StatusCode == http.StatusOK
	})
}

// Alive reports whether the process exists; a stopped one does.
func (p *Process) Alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Signal sends a signal. Kill and Stop are for those that end the process.
func (p *Process) Signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	require.NoError(t, p.command.Process.Signal(signal), p.Name)
	if signal == syscall.SIGSTOP {
		Wait(t, p.Name+" to stop", func() (string, bool) { return "", halted(p.command.Process.Pid) })
	}
}

// halted reports whether all threads of a process have stopped: the signal reaches them one
// after the other.
func halted(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		state := stat[bytes.LastIndexByte(stat, ')')+1:]
		if err == nil && !bytes.HasPrefix(state, []byte(" T")) {
			return false // one that has ended meanwhile is an error
		}
	}
	return err == nil
}

// Kill is kill -9.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	ended := p.ended
	p.ending = true
	p.mu.Unlock()
	p.Signal(t, syscall.SIGKILL)
	<-ended
}

// Stop sends SIGTERM to the process and fails the test if it has to be killed.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	p.end()
	status := p.command.ProcessState.Sys().(syscall.WaitStatus)
	require.False(t, status.Signaled() && status.Signal() == syscall.SIGKILL, "%s did not end within %v of SIGTERM", p.Name, grace)
}

// Restart starts the process again, which it first kills if need be.
func (p *Process) Restart(t testing.TB) {
	t.Helper()
	if p.Alive() {
		p.Kill(t)
	}
	require.NoError(t, p.start())
}

// CPUSeconds is the processor time that the process has used since its last start.
func (p *Process) CPUSeconds(t testing.TB) float64 {
	t.Helper()
	if !p.Alive() {
		return cputime.Ended(p.command.ProcessState)
	}
	return cpuSeconds(t, p.command.Process.Pid)
}

func cpuSeconds(t testing.TB, pid int) float64 {
	t.Helper()
	seconds, err := cputime.Of(pid)
	require.NoError(t, err)
	return seconds
}

// report prints the end of the log and keeps all of it.
func (p *Process) report(t testing.TB) {
	log, err := os.ReadFile(p.Log)
	if err != nil {
		t.Errorf("log of %s: %v", p.Name, err)
		return
	}
	kept := filepath.Join(root, "out", "e2e", "failed", t.Name(), p.Name+".log")
	if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
		t.Error(err)
	} else if err := os.WriteFile(kept, log, 0o600); err != nil {
		t.Error(err)
	}
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	const most = 40
	t.Logf("the end of %s:\n%s", kept, strings.Join(lines[max(0, len(lines)-most):], "\n"))
}
