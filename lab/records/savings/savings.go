package savings

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	bills "github.com/sigma-scheduler/sigma/internal/savings"
	"github.com/sigma-scheduler/sigma/lab/clusters"
)

// PageFile is the page in the folder of pages.
const PageFile = "results/savings-dumps.md"

// A Config of a record.
type Config struct {
	Sigma, Docs, Out string
	Checker          string // another checker of placements, a program of Python; "" = none
	Most             int    // nodes of the largest dump
	Orders           int    // of arrival whose placements are checked, of 20
	Page             bool   // write the page
	Version          string
	Log              io.Writer
}

// Run runs the record. Faults are an error, with the page written.
func Run(ctx context.Context, cfg Config) error {
	sigma, err := exec.LookPath(cfg.Sigma)
	if err == nil {
		sigma, err = filepath.Abs(sigma)
	}
	if err != nil {
		return err
	}
	if filepath.Base(sigma) != "sigma" {
		return fmt.Errorf("--sigma %s: the printed commands begin with sigma: want a program of that name", cfg.Sigma)
	}
	if cfg.Checker != "" {
		if cfg.Checker, err = filepath.Abs(cfg.Checker); err != nil {
			return err
		}
		if _, err := os.Stat(cfg.Checker); err != nil {
			return err
		}
	} else {
		fmt.Fprintln(cfg.Log, "no --checker: the placements are checked by the laboratory's own alone")
	}
	p := page{cfg: &cfg}
	var faults []string
	for _, style := range clusters.Styles {
		if style.Nodes > cfg.Most {
			continue
		}
		fmt.Fprintf(cfg.Log, "== %s\n", style.Name)
		dir, err := filepath.Abs(filepath.Join(cfg.Out, style.Name))
		if err != nil {
			return err
		}
		j := &judge{cfg: &cfg, style: style, broken: map[string]verdict{}, shell: &shell{dir: dir, sigma: sigma, log: cfg.Log}}
		if err := j.all(ctx, &p); err != nil {
			return fmt.Errorf("%s: %w", style.Name, err)
		}
		for _, text := range j.wrong {
			faults = append(faults, style.Name+": "+text)
		}
		if cfg.Page { // an interrupted run leaves the dumps that it ended
			if err := p.save(faults); err != nil {
				return err
			}
		}
	}
	if len(faults) > 0 {
		return errors.New("these figures are wrong:\n" + strings.Join(faults, "\n"))
	}
	return nil
}

// all checks one dump.
func (j *judge) all(ctx context.Context, p *page) error {
	if err := j.writeDump(); err != nil {
		return err
	}
	from := "--from dump.json"
	if j.style.Priced {
		from += " --prices prices.csv"
	}
	b, err := parsed[bill](ctx, j.shell, "sigma savings "+from+" --format json --quiet")
	if err != nil {
		return err
	}
	seconds, peak := j.seconds, j.peakKiB
	j.faults("sum", b.sums())
	if _, err := j.run(ctx, "sigma snapshot "+from+" --out snap --quiet"); err != nil {
		return err
	}
	again, err := parsed[bill](ctx, j.shell, "sigma savings --trace snap --format json --quiet")
	if err != nil {
		return err
	}
	j.faults("the bill of the dump and of its trace", b.equal(&again))
	after, err := j.rebalance(ctx, &again)
	if err != nil {
		return err
	}
	if err := j.model("snap", "model", j.path("moves.csv"), nil); err != nil {
		return err
	}
	packing := again.step("packing")
	if err := j.packed(ctx, packing, after, "model", true); err != nil {
		return err
	}
	level := again.Cost.Now - cost(&again, "moves", "packing")
	if err := j.shapes(ctx, again.step("shapes"), level, bills.AnyNumber); err != nil {
		return err
	}
	if err := j.shapes(ctx, again.step("types"), level-cost(&again, "shapes"), bills.AnyType); err != nil {
		return err
	}
	used, err := j.byUse(ctx)
	if err != nil {
		return err
	}
	if err := j.screens(ctx, from); err != nil {
		return err
	}
	p.add(j, &b, used, seconds, peak)
	return nil
}

// byUse checks the bill of the trace with a history of use.
func (j *judge) byUse(ctx context.Context) (*bill, error) {
	if err := j.history(); err != nil {
		return nil, err
	}
	b, err := parsed[bill](ctx, j.shell, "sigma savings --trace used --format json --quiet")
	if err != nil {
		return nil, err
	}
	j.faults("sum by use", b.sums())
	s := b.step("usage")
	if s.Money == nil {
		j.fault("usage: no figure with four weeks of use: %s", s.Risk)
		return &b, nil
	}
	convert, rest, ok := strings.Cut(s.Command, " && ")
	if !ok {
		j.fault("usage: the command %q is not two", s.Command)
		return &b, nil
	}
	if err := os.RemoveAll(j.path("used-by-use")); err != nil {
		return nil, err
	}
	if _, err := j.run(ctx, convert+" --quiet"); err != nil {
		return nil, err
	}
	level := b.Cost.Now - cost(&b, "moves", "packing")
	compared, err := parsed[[]comparison](ctx, j.shell, rest+" --format json --quiet")
	if err != nil {
		return nil, err
	}
	for _, r := range compared[0].Results {
		if r.Policy == "current" {
			continue
		}
		mean := 0.
		for _, run := range r.Runs {
			if run.Order > 0 {
				mean += run.Cost / 20
			}
		}
		j.near("usage: by its command", max(0, level-j.always-mean*monthHours), s.mean())
	}
	for _, cause := range []string{"shapes", "types"} {
		s := b.step(cause)
		if s.mean() == 0 {
			continue
		}
		other, err := parsed[bill](ctx, j.shell, strings.Replace(s.Command, "--report savings.html", "--format json --quiet", 1))
		if err != nil {
			return nil, err
		}
		of := other.step(cause)
		j.near(cause+" by use: by its command", of.mean(), s.mean())
	}
	return &b, nil
}

// cost is the money of some steps.
func cost(b *bill, causes ...string) (sum float64) {
	for _, cause := range causes {
		s := b.step(cause)
		sum += s.mean()
	}
	return sum
}

// screens holds the size of the screen; those of large dumps take their time again, and are the same code.
func (j *judge) screens(ctx context.Context, from string) error {
	for _, args := range []string{from, "--trace used"} {
		if j.style.Nodes > 300 {
			continue
		}
		out, err := j.run(ctx, "sigma savings "+args+" --quiet")
		if err != nil {
			return err
		}
		lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
		screen := lines
		if n := slices.IndexFunc(lines, func(l string) bool {
			return strings.HasPrefix(l, "simulated: ") || strings.HasPrefix(l, "No month is simulated")
		}); n > 0 {
			if len(lines)-n > 6 {
				j.fault("the month of %s has %d lines", args, len(lines)-n)
			}
			screen = lines[:n]
		}
		if len(screen) > 26 { // the last one is empty before a month
			j.fault("the screen of %s has %d lines", args, len(screen))
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > 80 {
				j.fault("the screen of %s has a line of %s columns: %s", args, strconv.Itoa(n), line)
			}
		}
	}
	return nil
}

// writeDump writes the dump and the prices.
func (j *judge) writeDump() error {
	if err := os.RemoveAll(j.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(j.dir, 0o755); err != nil {
		return err
	}
	for name, write := range map[string]func(io.Writer) error{"dump.json": j.style.Write, "prices.csv": j.style.Prices} {
		file, err := os.Create(j.path(name))
		if err != nil {
			return err
		}
		if err := errors.Join(write(file), file.Close()); err != nil {
			return err
		}
	}
	return nil
}
