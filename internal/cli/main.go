package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/internal/durable"
	"github.com/sigma-scheduler/sigma/internal/sheet"
	"github.com/sigma-scheduler/sigma/internal/shellword"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// A Program is a command line: that of the product, or one with more.
type Program struct {
	Name      string // "" = sigma
	Version   string
	Converter func() *Converter            // of public data sets; nil = the command names the laboratory's program
	Commands  func(Shell) []*cobra.Command // more than the product's; nil = none
}

// A Shell is the interface of a program for its own commands.
type Shell struct {
	Out, Err io.Writer
	// Do wraps a command's function: an error before it is one of the command line.
	Do    func(func(*cobra.Command, []string) error) func(*cobra.Command, []string) error
	Usage func(format string, args ...any) error // the error of wrong use
}

func (p Program) name() string { return cmp.Or(p.Name, "sigma") }

// Main runs a program until its end and exits.
func Main(p Program) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	os.Exit(p.Run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Run returns the exit code.
func (p Program) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	app := &app{program: p, stdout: shellword.Writer{Out: stdout}, stderr: shellword.Writer{Out: stderr}}
	root := app.root()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if at, ok := errors.AsType[*interruptedError](err); ok {
		err = at // without the context
	} else if errors.Is(err, context.Canceled) {
		err = interrupted("nothing was written")
	}
	if err != nil {
		fmt.Fprintf(app.stderr, "%s: %v\n", root.Name(), err)
	}
	var usage *usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage), !app.running:
		return exitUsage
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	return exitFailed
}

// An app is one invocation.
type app struct {
	program        Program
	stdout, stderr io.Writer
	// running is set once flags and arguments were accepted: errors before are
	// errors of the command line.
	running     bool
	maxUnpacked size
	// present reads traces as their present, see [savings.Present].
	present bool
	after   string // file of moves before it
}

// A usageError is wrong use of a command.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// do wraps a command's function and notes that it was reached.
// writeReport writes results as a page, if it has a path, and to standard output: as JSON, or described in text.
func (a *app) writeReport(results any, described *sheet.Report, format, page string) error {
	if page != "" {
		if err := durable.WriteFile(page, described.HTML); err != nil {
			return err
		}
	}
	if format == "json" {
		return sheet.JSON(a.stdout, results)
	}
	return described.Text(a.stdout)
}

func (a *app) do(f func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.running = true
		return f(cmd, args)
	}
}
