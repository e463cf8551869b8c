package controlplane

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// grace is the time of a program from SIGTERM to SIGKILL. Nothing of value is
	// lost by the latter; an API server waits without limit for its watches.
	grace = 10 * time.Second
	// A program that dies this often within a minute is not started again.
	mostRestarts = 10
)

// process is one program, kept alive.
type process struct {
	name, dir string
	program   string
	flags     []string
	log       io.Writer
	failed    func(error) // called when it died and is not started again

	alive   atomic.Bool // start it again when it dies
	stop    chan struct{}
	stopped sync.Once
	done    chan struct{} // closed when supervise returns
}

func newProcess(programs, dir, name string, flags []string) *process {
	return &process{
		name:    name,
		dir:     dir,
		program: filepath.Join(programs, name),
		flags:   flags,
		stop:    make(chan struct{}),
		done:    make(chan struct{}),
	}
}

func (p *process) keepAlive() { p.alive.Store(true) }

func (p *process) end() {
	p.stopped.Do(func() { close(p.stop) })
	<-p.done
}

func (p *process) logFile() string { return filepath.Join(p.dir, p.name+".log") }

func (p *process) tail() []byte { return tailOf(p.logFile()) }

func (p *process) supervise() {
	defer close(p.done)
	// The kernel sends Pdeathsig when the thread that forked ends, not the
	// process; this one must live as long as the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	minute := time.NewTicker(time.Minute)
	defer minute.Stop()
	for restarts := 0; ; restarts++ {
		err := p.once()
		if err == nil {
			return
		}
		select {
		case <-p.stop:
			return
		case <-minute.C:
			restarts = 0
		default:
		}
		if !p.alive.Load() || restarts >= mostRestarts {
			p.failed(fmt.Errorf("%s: %w\n%s", p.name, err, p.tail()))
			return
		}
		if p.log != nil {
			fmt.Fprintf(p.log, "controlplane: %s: %v; started again\n", p.name, err)
		}
		select {
		case <-p.stop:
			return
		case <-time.NewTimer(200 * time.Millisecond).C:
		}
	}
}

// once runs the program until it ends, which is an error, or until it is stopped.
func (p *process) once() error {
	out, err := os.OpenFile(p.logFile(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // the child has its own
	command := exec.Command(p.program, p.flags...)
	command.Dir = p.dir
	command.Stdout, command.Stderr = out, out
	// A group of its own: a terminal's ^C is for us, and we stop them in order.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return err
	}
	pid := filepath.Join(p.dir, p.name+".pid")
	err = writeFile(pid, []byte(strconv.Itoa(command.Process.Pid)+"\n"))
	var result error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		result = command.Wait()
	}()
	if err == nil {
		select {
		case <-ended:
			_ = os.Remove(pid)
			if result == nil {
				result = errors.New("ended by itself")
			}
			return result
		case <-p.stop:
		}
	}
	// A stopped process cannot act on SIGTERM.
	_ = command.Process.Signal(syscall.SIGTERM)
	_ = command.Process.Signal(syscall.SIGCONT)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		_ = command.Process.Kill()
		<-ended
	}
	_ = os.Remove(pid)
	return err
}

// writeFile replaces a file at once: a reader sees the old or the new content.
func writeFile(name string, content []byte) error {
	if err := os.WriteFile(name+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}
