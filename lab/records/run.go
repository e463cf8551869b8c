package records

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/internal/cputime"
)

// A Runner runs the commands of a section, notes them for its page and counts their
// CPU seconds.
type Runner struct {
	Sigma string    // path of the command line that is measured
	Lab   string    // path of the laboratory's, which converts public sets
	Data  string    // folder of public data sets, SIGMA_DATA; empty = none
	Log   io.Writer // progress

	noted   []string
	seconds float64
	silent  bool // commands are not noted; see Loop
	// Research has every command run by the laboratory's program.
	Research bool
}

// A Command is a program with its arguments. The program "sigma" is the Runner's.
type Command struct {
	Program string
	Args    []string
	Env     []string // besides that of this process
	Stderr  io.Writer
	Note    string // what the page shows; empty = the command itself
}

// Sigma is a command of the command line.
func Sigma(args ...string) Command { return Command{Program: "sigma", Args: args} }

// Run runs a command to its end and returns its standard output and the CPU seconds
// that it took. An error holds what the command wrote to standard error.
func (r *Runner) Run(ctx context.Context, c Command) (stdout []byte, seconds float64, err error) {
	var out, stderr bytes.Buffer
	if c.Stderr == nil {
		c.Stderr = &stderr
	}
	p, err := r.start(ctx, c, &out)
	if err != nil {
		return nil, 0, err
	}
	seconds, err = p.Wait()
	if err != nil {
		return nil, seconds, fmt.Errorf("%w\n%s", err, strings.TrimSpace(stderr.String()))
	}
	return out.Bytes(), seconds, nil
}

// A Process is a command that runs.
type Process struct {
	runner *Runner
	cmd    *exec.Cmd
	text   string
	killed func() error
}

// Start starts a command, whose standard output is dropped.
func (r *Runner) Start(ctx context.Context, c Command) (*Process, error) {
	return r.start(ctx, c, nil)
}

func (r *Runner) start(ctx context.Context, c Command, stdout io.Writer) (*Process, error) {
	program, shown := c.Program, c.Program
	if program == "sigma" {
		program, shown = r.Sigma, "bin/sigma"
		if r.Research || len(c.Args) > 0 && c.Args[0] == "convert" {
			program, shown = r.Lab, "bin/sigma-lab"
		}
	}
	if program == "bin/sigma-lab" {
		program = r.Lab
	}
	text := r.text(shown, c)
	fmt.Fprintln(r.Log, "  ", text)
	if c.Note != "" {
		text = c.Note
	}
	if !r.silent {
		r.noted = append(r.noted, text)
	}
	cmd := exec.CommandContext(ctx, program, c.Args...)
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.Stdout, cmd.Stderr = stdout, c.Stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	return &Process{runner: r, cmd: cmd, text: text, killed: ctx.Err}, nil
}

// Wait waits for the end of the command and returns its CPU seconds, also those of a
// command that failed.
func (p *Process) Wait() (seconds float64, err error) {
	err = p.cmd.Wait()
	seconds = cputime.Ended(p.cmd.ProcessState)
	p.runner.seconds += seconds
	if p.killed() != nil {
		err = p.killed() // what a killed command says of its end is no matter
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", p.text, err)
	}
	return seconds, err
}

// Interrupt asks the command to end and waits until it has.
func (p *Process) Interrupt() (seconds float64) {
	_ = p.cmd.Process.Signal(os.Interrupt)
	seconds, _ = p.Wait() // its exit code says that it was interrupted
	return seconds
}

// text is a command as a shell takes it, with the folder of data sets as a variable.
func (r *Runner) text(program string, c Command) string {
	words := append(append([]string(nil), c.Env...), program)
	for _, a := range c.Args {
		if r.Data != "" && strings.HasPrefix(a, r.Data) {
			a = "$SIGMA_DATA" + strings.TrimPrefix(a, r.Data)
		}
		if strings.ContainsAny(a, " *") || a == "" {
			a = strconv.Quote(a)
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}

// Loop notes one command, a loop of the shell, for all that run below it.
func (r *Runner) Loop(command string, run func() error) error {
	r.noted = append(r.noted, command)
	r.silent = true
	defer func() { r.silent = false }()
	return run()
}

// Version is the version of the command line that is measured: the commit that it was
// built from. It is no command of a section.
func (r *Runner) Version(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, r.Sigma, "version").Output()
	if err != nil {
		return "", fmt.Errorf("%s version: %w", r.Sigma, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Noted returns the commands in the order in which they were run.
func (r *Runner) Noted() []string { return r.noted }

// Seconds is the CPU time of all commands that have ended.
func (r *Runner) Seconds() float64 { return r.seconds }
