package placement

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/lab/records"
)

// bench runs the commands of one section and collects its lines.
type bench struct {
	ctx    context.Context
	runner *records.Runner
	now    func() time.Time
	dir    string // of the section's files
	table  records.Table
	parts  []part
	notes  []string
	files  []string // beside the page
}

// A part of a page has its own heading.
type part struct{ heading, text string }

// line adds a line to the section's table.
func (b *bench) line(l records.Line) {
	row := l.Row()
	b.table.Rows = append(b.table.Rows, row)
	fmt.Fprintln(b.runner.Log, "  ", records.RowText(row))
}

// note adds a sentence below the table.
func (b *bench) note(format string, args ...any) {
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
}

func (b *bench) page(s *Section, version string) *records.Page {
	p := records.NewPage(s.title)
	p.Text(s.about)
	p.Table(b.table)
	for _, part := range b.parts {
		if part.heading != "" {
			p.Heading(part.heading)
		}
		if part.text != "" {
			p.Text(part.text)
		}
	}
	p.List(b.notes)
	p.Commands(b.runner.Seconds(), s.Command(), version, b.runner.Noted())
	return p
}

// path is where a file or folder of the section stands.
func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

// sigma runs the command line and returns its standard output and the CPU
// seconds that it took. The page shows the command.
func (b *bench) sigma(args ...string) (stdout []byte, seconds float64, err error) {
	return b.runner.Run(b.ctx, records.Sigma(args...))
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

// errNoData says that there are no public data sets.
var errNoData = errors.New("SIGMA_DATA is not set")

// convert makes traces of a public set below the folder name; paths are below
// SIGMA_DATA. The error is errNoData without it.
func (b *bench) convert(name, format string, paths []string, flags ...string) (dir string, err error) {
	if b.runner.Data == "" {
		return "", errNoData
	}
	args := []string{"convert", format}
	for _, p := range paths {
		args = append(args, filepath.Join(b.runner.Data, p))
	}
	dir = b.path(name)
	_, _, err = b.sigma(append(append(args, flags...), "--out", dir)...)
	return dir, err
}

// compare replays policies, separated by commas, on a trace or folder of traces.
func (b *bench) compare(dir, policies string, orders int, flags ...string) (*block, error) {
	return b.compareBy(records.Sigma().Program, dir, policies, orders, flags...)
}

// laboratory is the command line that has the models of the laboratory.
const laboratory = "bin/sigma-lab"

// compareBy is compare by a given command line.
func (b *bench) compareBy(program, dir, policies string, orders int, flags ...string) (*block, error) {
	args := append(comparison(dir, policies, orders, "json"), flags...)
	out, _, err := b.runner.Run(b.ctx, records.Command{Program: program, Args: args})
	if err != nil {
		return nil, err
	}
	k := &block{}
	if err := json.Unmarshal(out, &k.traces); err != nil {
		return nil, fmt.Errorf("read the comparison of %s: %w", dir, err)
	}
	return k, nil
}

// comparison is the arguments of a compare with the seed of all records.
func comparison(dir, policies string, orders int, format string) []string {
	return []string{"compare", "--trace", dir, "--policy", policies, "--orders", strconv.Itoa(orders), "--seed", "7", "--format", format}
}

// block holds the results of one compare.
type block struct{ traces []report.Comparison }

// A Section is one page of figures about placement.
type Section struct {
	Name  string // on the command line, and of the page
	title string
	about string // what was run, in a paragraph
	run   func(*bench) error
	// research means that the commands need kinds, models or files of the laboratory.
	research bool
}

// Sections in the order in which they are run. Each is a variable of a file of its own.
var Sections = []*Section{
	&cluster,
	&large,
	&optimizers,
	&plan,
	&bounds,
	&workers,
	&severalObjectives,
	&small,
	&public,
	&sharing,
	&onedim,
	&shipped,
	&moves,
}

// Page is the section's page below the folder of documents.
func (s *Section) Page() string { return "results/" + s.Name + ".md" }

// maker is the command that makes a page, before the section's name.
const maker = "make records SECTION="

// Command makes the page.
func (s *Section) Command() string { return maker + s.Name }

// A Config says where sections run.
type Config struct {
	Docs   string // folder of documents; empty = the page is not written
	Out    string // folder of files that sections make
	Runner records.Runner
	Now    func() time.Time
}

// Run measures a section and replaces its page. Where it fails or is interrupted, the
// old page stays.
func (s *Section) Run(ctx context.Context, cfg Config) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends what a failed section has left
	runner := cfg.Runner
	runner.Research = s.research
	b := &bench{ctx: ctx, runner: &runner, now: cfg.Now, dir: filepath.Join(cfg.Out, s.Name), table: records.LineTable()}
	if err := os.RemoveAll(b.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return err
	}
	if err := s.run(b); err != nil {
		return fmt.Errorf("section %s: %w", s.Name, err)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	version, err := runner.Version(ctx)
	if err != nil {
		return err
	}
	page := filepath.Join(cfg.Docs, s.Page())
	for _, from := range b.files {
		text, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := records.Replace(filepath.Join(filepath.Dir(page), filepath.Base(from)), string(text)); err != nil {
			return err
		}
	}
	return b.page(s, version).Save(page)
}

// leftOut notes that the public sets were not measured.
func (b *bench) leftOut(what string) {
	b.note("%s: left out, %v", strings.TrimSpace(what), errNoData)
}
