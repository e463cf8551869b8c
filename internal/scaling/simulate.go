package scaling

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/loadsim"
	"github.com/sigma-scheduler/sigma/mpa/report"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

// Synthetic is the prefix of a synthetic load's name.
const Synthetic = "synthetic:"

// FamiliesHelp lists the synthetic loads.
func FamiliesHelp() string {
	var b strings.Builder
	b.WriteString("Synthetic traces, and their parameters for --set (rates per second, times in hours):")
	for _, f := range loadsim.Families() {
		fmt.Fprintf(&b, "\n  %s%s\n      %s", Synthetic, f.Name, f.Help)
		for _, p := range f.Params {
			value := fmt.Sprintf("%.3g", p.Default)
			if p.Share {
				value += " of the length"
			}
			fmt.Fprintf(&b, "\n      %s=%s  %s", p.Name, value, p.Help)
		}
	}
	return b.String()
}

// ErrSynthetic is returned when a synthetic load is named without its prefix.
var ErrSynthetic = errors.New("the synthetic load is --trace")

// ReadTrace reads a load from a file, and returns the load's name and the file's digest.
func ReadTrace(path string) (load loadsim.Load, name, digest string, err error) {
	load, err = loadsim.ReadLoad(path)
	if errors.Is(err, fs.ErrNotExist) && slices.ContainsFunc(loadsim.Families(), func(k loadsim.Family) bool { return k.Name == path }) {
		err = fmt.Errorf("%w; %w %s%s", err, ErrSynthetic, Synthetic, path)
	}
	if err != nil {
		return load, "", "", err
	}
	text, err := os.ReadFile(path)
	return load, strings.TrimSuffix(filepath.Base(path), ".csv"), fmt.Sprintf("sha256:%x", sha256.Sum256(text)), err
}

// Rates returns mean and peak of a load between two times in hours, per second.
func Rates(load loadsim.Load, from, to float64) (mean, peak float64) {
	seconds := 0.0
	for t, until := from*3600, 0.0; t < to*3600; t = until {
		var rate float64
		rate, until = load.Rate(t)
		until = min(until, to*3600)
		mean += rate * (until - t)
		peak = max(peak, rate)
		seconds += until - t
	}
	return mean / seconds, peak
}

// A Simulation is agents on one application under one load.
type Simulation struct {
	App           sim.App
	Load          loadsim.Load
	Trace         report.Trace
	Hours, Warmup float64
	Seed          uint64 // of the first run of each agent
	Seeds         int
	Agents        []Agent
	Workers       int
	Log           string // folder for journals, "" = no journals
	Minutes       bool   // of each run, for a page
	Done          func() // called after each run
}

// Simulate runs every agent with every seed.
func Simulate(ctx context.Context, s *Simulation) (*report.Comparison, error) {
	seeds := make([]uint64, s.Seeds)
	for i := range seeds {
		seeds[i] = s.Seed + uint64(i)
	}
	names := make([]string, len(s.Agents))
	results, minutes := make([][]sim.Result, len(s.Agents)), make([][][]sim.Minute, len(s.Agents))
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(s.Workers)
	for i, a := range s.Agents {
		names[i] = a.Name
		results[i], minutes[i] = make([]sim.Result, s.Seeds), make([][]sim.Minute, s.Seeds)
		for k, seed := range seeds {
			group.Go(func() (err error) {
				cfg := sim.Config{
					App: s.App, Load: s.Load, Seconds: s.Hours * 3600, Warmup: s.Warmup * 3600,
					Seed: seed, Guards: mpa.DefaultGuards(), Site: sim.DefaultSite(),
				}
				if s.Minutes {
					cfg.Record = func(m sim.Minute) { minutes[i][k] = append(minutes[i][k], m) }
				}
				if results[i][k], err = a.RunLogged(inner, cfg, s.Log); err == nil {
					s.Done()
				}
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return report.New(report.AppOf(&s.App), s.Trace, seeds, names, results, minutes), nil
}
