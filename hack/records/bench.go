package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/cerebro/report"
)

// bench runs the commands of one section and collects its lines.
type bench struct {
	ctx      context.Context
	section  section
	dir      string // below the module's root
	lines    []line
	notes    []string
	commands []string
	seconds  float64 // of CPU
	silent   bool    // commands are left out; see loop
}

// A line is one figure beside its peers and its targets.
type line struct {
	work   string // instances, knowledge, policy
	figure string // what is measured, with its unit
	value  float64
	format string // of value, must and aim; "" = %.2f
	se     float64
	peers  string // the same figure of others, from the same run
	must   target
	aim    target
}

// A target is a limit that a value keeps; the zero target asks nothing.
type target struct {
	limit float64
	kind  byte // '<' at most, '>' at least, 0 none
}

func atMost(limit float64) target  { return target{limit, '<'} }
func atLeast(limit float64) target { return target{limit, '>'} }

func (t target) reached(v float64) bool {
	return t.kind == 0 || t.kind == '<' && v <= t.limit || t.kind == '>' && v >= t.limit
}

func (t target) text(format string) string {
	if t.kind == 0 {
		return ""
	}
	sign := map[byte]string{'<': "≤", '>': "≥"}[t.kind]
	return sign + " " + fmt.Sprintf(format, t.limit)
}

func newBench(ctx context.Context, s section) (*bench, error) {
	b := &bench{ctx: ctx, section: s, dir: filepath.Join("out", "records", s.name)}
	if err := os.RemoveAll(b.dir); err != nil {
		return nil, err
	}
	return b, os.MkdirAll(b.dir, 0o755)
}

// line adds a line to the section's table.
func (b *bench) line(l line) {
	if l.format == "" {
		l.format = "%.2f"
	}
	b.lines = append(b.lines, l)
	fmt.Fprintf(os.Stderr, "   %s\n", l.row())
}

// note adds a sentence below the table.
func (b *bench) note(format string, args ...any) {
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
}

// verdict says which target a line has reached.
func (l line) verdict() string {
	switch {
	case l.must.kind == 0 && l.aim.kind == 0:
		return ""
	case !l.must.reached(l.value):
		return "**missed**"
	case l.aim.kind != 0 && l.aim.reached(l.value):
		return "aim"
	case l.must.kind == 0:
		return "not the aim"
	default:
		return "must"
	}
}

func (l line) row() string {
	value := fmt.Sprintf(l.format, l.value)
	if l.se > 0 {
		value += " ± " + fmt.Sprintf("%.2g", l.se)
	}
	cells := []string{l.work, l.figure, value, l.peers, l.must.text(l.format), l.aim.text(l.format), l.verdict()}
	return "| " + strings.Join(cells, " | ") + " |"
}

func (b *bench) markdown() string {
	var out strings.Builder
	fmt.Fprintf(&out, "\n%s\n", strings.TrimSpace(b.section.about))
	if len(b.lines) > 0 {
		out.WriteString("\n| work | figure | Sigma | peers | must | aim | reached |\n| --- | --- | ---: | --- | ---: | ---: | --- |\n")
		for _, l := range b.lines {
			out.WriteString(l.row() + "\n")
		}
	}
	for i, n := range b.notes {
		if i == 0 {
			out.WriteString("\n")
		}
		fmt.Fprintf(&out, "- %s\n", n)
	}
	fmt.Fprintf(&out, "\n%.0f CPU-seconds, `go run ./hack/records %s`:\n\n```\n%s\n```\n",
		b.seconds, b.section.name, strings.Join(b.commands, "\n"))
	return out.String()
}

// path is where a file or folder of the section stands.
func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

// sigma runs the command line and returns its standard output and the CPU
// seconds that it took. The command stands on the page.
func (b *bench) sigma(args ...string) (stdout []byte, seconds float64, err error) {
	return b.command("bin/sigma", args...)
}

// command is sigma for another program.
func (b *bench) command(program string, args ...string) (stdout []byte, seconds float64, err error) {
	shown := make([]string, len(args))
	for i, a := range args {
		if data := os.Getenv("SIGMA_DATA"); data != "" && strings.HasPrefix(a, data) {
			a = "$SIGMA_DATA" + strings.TrimPrefix(a, data)
		}
		if strings.ContainsAny(a, " *") || a == "" {
			a = strconv.Quote(a)
		}
		shown[i] = a
	}
	command := program + " " + strings.Join(shown, " ")
	fmt.Fprintln(os.Stderr, "  ", command)
	var stderr bytes.Buffer
	cmd := exec.CommandContext(b.ctx, program, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if cmd.ProcessState != nil {
		seconds = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	}
	b.seconds += seconds // of what failed too
	if !b.silent {
		b.commands = append(b.commands, command)
	}
	if err != nil {
		return nil, seconds, fmt.Errorf("%s: %w\n%s", command, err, strings.TrimSpace(stderr.String()))
	}
	return out, seconds, nil
}

// loop shows one command for all that run below it: a loop of the shell.
func (b *bench) loop(command string, run func() error) error {
	b.commands = append(b.commands, command)
	b.silent = true
	defer func() { b.silent = false }()
	return run()
}

// generate makes count instances of a kind from a seed on, below the folder name.
func (b *bench) generate(name, kind string, seed uint64, count int, sets ...string) (dir string, err error) {
	args := []string{"generate", kind, "--seed", strconv.FormatUint(seed, 10), "--count", strconv.Itoa(count)}
	for _, s := range sets {
		args = append(args, "--set", s)
	}
	dir = b.path(name)
	_, _, err = b.sigma(append(args, "--out", dir)...)
	return dir, err
}

// errNoData says that SIGMA_DATA is not set.
var errNoData = errors.New("SIGMA_DATA is not set")

// convert makes traces of a public set below the folder name; paths are below
// SIGMA_DATA. The error is errNoData without it.
func (b *bench) convert(name, format string, paths []string, flags ...string) (dir string, err error) {
	data := os.Getenv("SIGMA_DATA")
	if data == "" {
		return "", errNoData
	}
	args := []string{"convert", format}
	for _, p := range paths {
		args = append(args, filepath.Join(data, p))
	}
	dir = b.path(name)
	_, _, err = b.sigma(append(append(args, flags...), "--out", dir)...)
	return dir, err
}

// compare replays policies, separated by commas, on a trace or folder of traces.
func (b *bench) compare(dir, policies string, orders int, flags ...string) (*block, error) {
	args := append([]string{"compare", "--trace", dir, "--policy", policies, "--orders", strconv.Itoa(orders), "--seed", "7", "--format", "json"}, flags...)
	out, seconds, err := b.sigma(args...)
	if err != nil {
		return nil, err
	}
	k := &block{seconds: seconds}
	if err := json.Unmarshal(out, &k.traces); err != nil {
		return nil, fmt.Errorf("read the comparison of %s: %w", dir, err)
	}
	return k, nil
}

// block is what one compare has measured.
type block struct {
	traces  []report.Comparison
	seconds float64 // of CPU, the command's
}
