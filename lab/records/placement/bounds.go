package placement

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/lab/records"
)

var bounds = Section{
	Name:  "bounds",
	title: "Lower bounds",
	about: "`sigma bound`" + ` lists what each method proves; the figure is the strongest. A bound is compared with the optimum
where one is published. CPU seconds are of the whole set, with reading the files.`,
	run: runBounds,
}

// bounded is what sigma bound prints as JSON.
type bounded []struct {
	Trace  report.Trace
	Bound  report.Bound
	Bounds []struct {
		Method      string
		Cost        float64
		CostSeconds float64 `json:"cost_seconds"`
	}
}

func (b *bench) bounds(dir string, flags ...string) (bounded, float64, error) {
	out, seconds, err := b.sigma(append([]string{"bound", "--trace", dir, "--format", "json"}, flags...)...)
	if err != nil {
		return nil, 0, err
	}
	var list bounded
	return list, seconds, json.Unmarshal(out, &list)
}

// mean is the mean of the strongest bound and of volume.
func (list bounded) mean() (best, volume float64) {
	for _, one := range list {
		best += one.Bound.Cost / float64(len(list))
		volume += one.Bounds[0].Cost / float64(len(list))
	}
	return best, volume
}

func (list bounded) strongest(i int) float64 { return list[i].Bound.CostSeconds }

// overTime is the mean of how much cost-seconds exceed those of volume, in %.
func (list bounded) overTime(figure func(i int) float64) (mean float64) {
	for i := range list {
		mean += 100 * (figure(i)/list[i].Bounds[0].CostSeconds - 1) / float64(len(list))
	}
	return mean
}

// methods counts the traces by the method of the strongest bound.
func (list bounded) methods() string {
	count := map[string]int{}
	for _, one := range list {
		method, _, _ := strings.Cut(one.Bound.Method, ":")
		count[method]++
	}
	var parts []string
	for method, n := range count {
		parts = append(parts, fmt.Sprintf("%s %d", method, n))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

func runBounds(b *bench) error {
	for _, s := range []struct {
		kind  string
		count int
	}{{"small", 40}, {"large", 12}, {"large2d", 6}, {"churn", 2}} {
		dir, err := b.generate(s.kind, s.kind, 950_000, s.count)
		if err != nil {
			return err
		}
		list, seconds, err := b.bounds(dir)
		if err != nil {
			return err
		}
		best, volume := list.mean()
		figure := "machines"
		if list[0].Bound.CostSeconds > 0 {
			figure = "machines at the peak"
		}
		b.line(records.Line{
			Work: fmt.Sprintf("%s, %d instances", s.kind, s.count), Figure: figure, Value: best,
			Peers: fmt.Sprintf("volume %.2f", volume),
		})
		if list[0].Bound.CostSeconds > 0 {
			b.line(records.Line{
				Work: fmt.Sprintf("%s, %d instances", s.kind, s.count), Figure: "cost-seconds above volume's, %",
				Value: list.overTime(list.strongest), Peers: fmt.Sprintf("cliques alone %.2f", list.overTime(func(i int) float64 { return list[i].Bounds[2].CostSeconds })),
			})
		}
		b.note("%s: strongest by %s; %.1f CPU-s.", s.kind, list.methods(), seconds)
	}
	err := b.publishedBounds()
	if errors.Is(err, errNoData) {
		b.leftOut("the public sets")
		return nil
	}
	return err
}

func (b *bench) publishedBounds() error {
	above := 0
	for _, set := range []string{"vbp-panigrahy", "vbp-triplet"} {
		dir, err := b.convert(set, "vbp", []string{set})
		if err != nil {
			return err
		}
		if err := sample(dir); err != nil {
			return err
		}
		known, err := b.readKnown(set)
		if err != nil {
			return err
		}
		list, seconds, err := b.bounds(dir, "--effort", "0.5")
		if err != nil {
			return err
		}
		above += b.againstOptimum(set, list, known, seconds)
	}
	b.note("Of vbp-panigrahy and vbp-triplet the instances whose name ends in -0 are kept.")
	b.line(records.Line{Work: "vbp-panigrahy, vbp-triplet", Figure: "bounds above a published optimum or packing", Value: float64(above), Format: "%.0f", Must: records.AtMost(0)})

	dir, err := b.convert("bppc", "bppc", []string{"bppc-muritiba"})
	if err != nil {
		return err
	}
	list, seconds, err := b.bounds(dir)
	if err != nil {
		return err
	}
	for _, one := range list {
		if optimum := map[string]float64{"bppc-1-0-2": 49, "bppc-1-6-8": 81}[one.Trace.Name]; optimum > 0 {
			b.line(records.Line{
				Work: one.Trace.Name, Figure: "bins; the optimum is a packing's", Value: one.Bound.Cost, Format: "%.0f",
				Peers: fmt.Sprintf("volume %.0f", one.Bounds[0].Cost), Must: records.AtMost(optimum), Aim: records.AtLeast(optimum),
			})
		} else {
			b.note("%s: %.0f by %s, volume %.0f.", one.Trace.Name, one.Bound.Cost, one.Bound.Method, one.Bounds[0].Cost)
		}
	}
	b.note("bppc-muritiba, 10 instances: %.1f CPU-s.", seconds)

	for _, s := range []struct {
		name, format string
		paths        []string
		flags        []string
		optimum      float64 // mean; 0 = unknown
	}{
		{"or3", "funsearch", []string{"funsearch-binpack/or3.json"}, nil, 201.2},
		{"weibull-5k", "funsearch", []string{"funsearch-binpack/weibull-5k.json"}, nil, 1987.8},
		{"tianchi-prelim-b", "tianchi", []string{"tianchi2018-common", "tianchi2018-prelim-b"}, []string{"--large-first", "--empty"}, 0},
		{"azure-dev", "azure", []string{"azure-v1-flavors"}, nil, 0},
	} {
		if dir, err = b.convert(s.name, s.format, s.paths, s.flags...); err != nil {
			return err
		}
		if list, seconds, err = b.bounds(dir); err != nil {
			return err
		}
		best, volume := list.mean()
		l := records.Line{Work: s.name, Figure: "machines", Value: best, Format: "%.1f", Peers: fmt.Sprintf("volume %.1f", volume)}
		if s.optimum > 0 {
			l.Peers += fmt.Sprintf(", optimum %.1f", s.optimum)
			l.Must, l.Aim = records.AtMost(s.optimum+1e-9), records.AtLeast(s.optimum-1e-9)
		}
		b.line(l)
		b.note("%s: %d traces, %.1f CPU-s.", s.name, len(list), seconds)
	}
	return nil
}

// sample removes the traces whose name does not end in -0.
func sample(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), "-0") {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// A knownResult is what has been published about an instance; an optimum of 0 is
// unknown.
type knownResult struct{ lower, optimum, packing float64 }

// readKnown reads the summary of a set by the names of its traces.
func (b *bench) readKnown(set string) (map[string]knownResult, error) {
	path := filepath.Join(b.runner.Data, set, "summary_known.csv")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := csv.NewReader(bytes.NewReader(text))
	r.Comma = '\t'
	rows, err := r.ReadAll()
	if err != nil {
		return nil, err
	}
	known := map[string]knownResult{}
	for _, row := range rows[1:] {
		var v [3]float64
		for i := range v {
			if v[i], err = strconv.ParseFloat(row[1+i], 64); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		}
		known[strings.ToLower(strings.ReplaceAll(row[0], "_", "-"))] = knownResult{v[0], max(0, v[1]), v[2]}
	}
	return known, nil
}

// againstOptimum adds the lines of a set with published results and returns how
// many bounds are above an optimum or a packing.
func (b *bench) againstOptimum(set string, list bounded, known map[string]knownResult, seconds float64) (above int) {
	var optimal, on, onLower, onVolume, open, closed, beyond int
	gap := 0.0
	for _, one := range list {
		k, ok := known[one.Trace.Name]
		if !ok {
			continue
		}
		v := one.Bound.Cost
		if v > k.packing || k.optimum > 0 && v > k.optimum {
			above++
		}
		if v > k.lower {
			beyond++
		}
		if k.optimum == 0 {
			open++
			if v == k.packing {
				closed++
			}
			continue
		}
		optimal++
		gap += 100 * (1 - v/k.optimum)
		if v == k.optimum {
			on++
		}
		if k.lower == k.optimum {
			onLower++
		}
		if one.Bounds[0].Cost == k.optimum {
			onVolume++
		}
	}
	share := func(n int) float64 { return 100 * float64(n) / float64(optimal) }
	b.line(records.Line{
		Work: fmt.Sprintf("%s, %d instances with a known optimum", set, optimal), Figure: "bound = optimum, %", Value: share(on), Format: "%.1f",
		Peers: fmt.Sprintf("published bounds %.1f, volume %.1f", share(onLower), share(onVolume)), Must: records.AtLeast(share(onLower)),
	})
	b.line(records.Line{Work: set, Figure: "mean distance to the optimum, %", Value: gap / float64(optimal)})
	if open > 0 {
		b.line(records.Line{Work: fmt.Sprintf("%s, %d instances without", set, open), Figure: "best published packing proven optimal", Value: float64(closed), Format: "%.0f"})
	}
	b.note("%s: above the published bound on %d of %d; strongest by %s; %.1f CPU-s.", set, beyond, len(list), list.methods(), seconds)
	return above
}
