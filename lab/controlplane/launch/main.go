// Command launch is the program behind lab/controlplane/run.sh.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/sigma-scheduler/sigma/lab/controlplane"
)

// The kernel sends Pdeathsig when the thread that forked ends: fork on the one
// that lives as long as we do.
func init() { runtime.LockOSThread() }

func main() { os.Exit(launch(os.Args[1:])) }

// launch returns the exit status: the command's, or 1.
func launch(args []string) int {
	options := controlplane.Options{Log: os.Stderr}
	flags := flag.NewFlagSet("run.sh", flag.ContinueOnError)
	flags.StringVar(&options.Programs, "programs", "", "folder of etcd, kube-apiserver, ... (set by run.sh)")
	flags.StringVar(&options.Dir, "dir", "", "folder for everything, removed at the end (set by run.sh)")
	keep := flags.Bool("keep", false, "keep that folder, with the logs, and say where it is")
	timeout := flags.Duration("timeout", 3*time.Minute, "time to get ready")
	list := func(to *[]string) func(string) error {
		return func(value string) error {
			*to = append(*to, value)
			return nil
		}
	}
	flags.Func("apiserver", "a further `flag` of kube-apiserver; may be repeated", list(&options.APIServer))
	flags.Func("controller-manager", "a further `flag` of kube-controller-manager; may be repeated", list(&options.ControllerManager))
	flags.Usage = func() {
		fmt.Fprint(os.Stderr, `usage: run.sh [flags] [command ...]

Starts a throw-away control plane and runs the command with KUBECONFIG,
CONTROLPLANE_DIR and a PATH that begins with the programs' folder; its exit
status is the command's. Without a command, prints the path of the kubeconfig
and waits for a signal.

`)
		flags.PrintDefaults()
	}

	status, err := 1, flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		status, err = 0, nil
	case err != nil:
		err = nil // it printed it
	default:
		status, err = run(options, *timeout, flags.Args())
	}
	if *keep {
		fmt.Fprintf(os.Stderr, "controlplane: kept %s\n", options.Dir)
	} else if removeErr := os.RemoveAll(options.Dir); err == nil {
		err = removeErr
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "controlplane: %v\n", err)
		return max(status, 1)
	}
	return status
}

var errSignal = errors.New("stopped by a signal")

// run returns the command's exit status.
func run(options controlplane.Options, timeout time.Duration, command []string) (int, error) {
	// First, so that a missing command costs nothing.
	path := options.Programs + string(os.PathListSeparator) + os.Getenv("PATH")
	if err := os.Setenv("PATH", path); err != nil {
		return 1, err
	}
	if len(command) > 0 {
		if _, err := exec.LookPath(command[0]); err != nil {
			return 127, err
		}
	}
	signaled, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer cancel()
	starting, ready := context.WithTimeout(signaled, timeout)
	plane, err := controlplane.Start(starting, options)
	ready()
	if signaled.Err() != nil && err != nil {
		return 1, errSignal
	}
	if err != nil {
		return 1, err
	}
	defer plane.Stop()

	if len(command) == 0 {
		fmt.Println(plane.Kubeconfig())
		select {
		case <-signaled.Done():
			return 0, nil
		case err := <-plane.Failed():
			return 1, err
		}
	}

	ctx, stop := context.WithCancelCause(signaled)
	defer stop(nil)
	go func() {
		select {
		case err := <-plane.Failed():
			stop(err)
		case <-ctx.Done():
		}
	}()
	child := exec.CommandContext(ctx, command[0], command[1:]...)
	child.Env = append(os.Environ(), "KUBECONFIG="+plane.Kubeconfig(), "CONTROLPLANE_DIR="+plane.Dir)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	// Stopped with all it started. At a terminal it must stay in the foreground
	// group, or it could not read; ^C reaches that whole group anyway.
	group := !term.IsTerminal(int(os.Stdin.Fd()))
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: group, Pdeathsig: syscall.SIGTERM}
	target := func() int {
		if group {
			return -child.Process.Pid
		}
		return child.Process.Pid
	}
	child.Cancel = func() error { return syscall.Kill(target(), syscall.SIGTERM) }
	child.WaitDelay = 10 * time.Second
	err = child.Run()
	if group && child.Process != nil {
		_ = syscall.Kill(target(), syscall.SIGKILL) // its remaining children
	}
	if signaled.Err() != nil {
		return 1, errSignal
	}
	if cause := context.Cause(ctx); cause != nil {
		return 1, cause
	}
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
}
