package simcheck

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sigma-scheduler/sigma/lab/records"
)

// PartVar names the environment variable with the part that a process plays.
const PartVar = "SIGMA_VALIDATE_PART"

// Page is the page with the tables, below the folder of documents.
const Page = "mpa-validation.md"

// Command renews the page.
const Command = "make mpa-validate"

// A Config says how much is measured and where tables go.
type Config struct {
	Docs    string // folder of documents
	Out     string // folder of files that the section makes
	Runs    int    // of each load
	Seconds float64
	App     string // one of the applications; empty = all
	Print   io.Writer
	Runner  records.Runner
	Now     func() time.Time
}

// Apps are the names of the applications of the server.
func Apps() []string { return []string{"constant", "exponential", "io"} }

// Run measures, and replaces the tables of the page or prints them. A page has the tables
// of all applications.
func Run(ctx context.Context, cfg Config) error {
	switch {
	case cfg.App != "" && !slices.Contains(Apps(), cfg.App):
		return fmt.Errorf("unknown application %q: want one of %s", cfg.App, strings.Join(Apps(), ", "))
	case cfg.App != "" && cfg.Print == nil:
		return errors.New("the page shows all applications: use --app together with --print")
	case cfg.Runs < 1 || cfg.Seconds <= 0.5:
		return fmt.Errorf("%d runs of %g seconds: want at least one run, of more than half a second", cfg.Runs, cfg.Seconds)
	}
	theory, err := cfg.theory(ctx)
	if err != nil {
		return err
	}
	server, err := cfg.server(ctx)
	if err != nil {
		return err
	}
	server += "\n" + Where() + "\n"
	if cfg.Print != nil {
		_, err := io.WriteString(cfg.Print, theory+server)
		return err
	}
	page := filepath.Join(cfg.Docs, Page)
	return errors.Join(records.Insert(page, "theory", theory), records.Insert(page, "server", server))
}

// The tests of theory, and the variable with the file that they append rows to.
const (
	theoryPackage = "mpa/loadsim"
	theoryVar     = "SIGMA_THEORY"
)

var theoryTests = []string{"TestErlangC", "TestProcessorSharing", "TestLittle", "TestTurnsOverTime"}

// theory runs the tests of the simulator that print rows of the table.
func (cfg *Config) theory(ctx context.Context) (string, error) {
	if err := os.MkdirAll(cfg.Out, 0o755); err != nil {
		return "", err
	}
	file, err := filepath.Abs(filepath.Join(cfg.Out, "theory"))
	if err != nil {
		return "", err
	}
	if err := os.RemoveAll(file); err != nil {
		return "", err
	}
	_, _, err = cfg.Runner.Run(ctx, records.Command{
		Program: "go", Args: []string{"test", "-count=1", "-run", "^(" + strings.Join(theoryTests, "|") + ")$", "./" + theoryPackage},
		Env: []string{theoryVar + "=" + file},
	})
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	return theoryTable(string(text))
}

// theoryTable makes a table of rows that tests have written.
func theoryTable(rows string) (string, error) {
	tables, err := records.ParseTables("| | theory | simulated | deviation |\n" + rows)
	if err != nil {
		return "", fmt.Errorf("the rows of the theory: %w", err)
	}
	if len(tables[0].Rows) == 0 {
		return "", errors.New("the tests of the simulator wrote no rows")
	}
	tables[0].Right = []int{1, 2, 3}
	return tables[0].Markdown(), nil
}

// server runs this program as the part that compares with a server.
func (cfg *Config) server(ctx context.Context) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	args := []string{"records", "validate", "--runs", strconv.Itoa(cfg.Runs), "--seconds", strconv.FormatFloat(cfg.Seconds, 'g', -1, 64), "--app", cfg.App}
	out, _, err := cfg.Runner.Run(ctx, records.Command{Program: self, Args: args, Env: []string{PartVar + "=load"}, Stderr: cfg.Runner.Log})
	return string(out), err
}

// Where says what tables were measured on.
func Where() string {
	return fmt.Sprintf("Measured on %s, %d cores, Linux %s, %s, timer of %s Hz.",
		valueIn(open("/proc/cpuinfo"), "model name", ":"), runtime.NumCPU(),
		release(), runtime.Version(), valueIn(unzip(open("/proc/config.gz")), "CONFIG_HZ", "="))
}

func release() string {
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "?"
	}
	version, _, _ := strings.Cut(strings.TrimSpace(string(text)), "-")
	return version
}

// open returns the content of a file, nothing where it cannot be read.
func open(path string) io.Reader {
	text, err := os.ReadFile(path)
	if err != nil {
		return strings.NewReader("")
	}
	return strings.NewReader(string(text))
}

func unzip(r io.Reader) io.Reader {
	z, err := gzip.NewReader(r)
	if err != nil {
		return strings.NewReader("")
	}
	return z
}

// valueIn is the value of a name in lines of names and values, "?" without it.
func valueIn(r io.Reader, name, separator string) string {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), separator); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "?"
}
