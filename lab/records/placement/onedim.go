package placement

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"

	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/lab/records"
)

var onedim = Section{
	Name:     "onedim",
	research: true,
	title:    "One dimension: or3 and weibull-5k of FunSearch, and fresh instances of both families",
	about: `Excess is (mean bins − mean L1) ÷ mean L1 in %, L1 = ⌈Σ sizes ÷ capacity⌉ of each instance, which is the
offline optimum of all public ones. Items come in the file's order. The policies are of the model
` + "`population`" + `, trained on generated instances with seeds from 1; the fresh ones have seeds from 950,000 and count more.
K0 sees the item and the bins; K0+clock also the elapsed share of the arrivals, which with the number of items
seen tells how many are to come. FunSearch's published heuristics (Romera-Paredes et al. 2024) see neither, and
each is for its own family; they run here on the same items, on fresh weibull instances the first 20 only. "Both families" is one policy for both (` + "`general-k0…-plain-1d`" + `).`,
	run: runOnedim,
}

// A family of instances in one dimension.
type family struct {
	name, kind, public string
	fresh, formula     int // fresh instances, and those that the formula runs on
	heuristic          func(capacity int64, items []int64) int
	k0, clock          [2]records.Target // must, aim
}

func runOnedim(b *bench) error {
	for _, f := range []family{
		{
			name: "or3", kind: "orlib", public: "or3.json", fresh: 2000, formula: 2000, heuristic: funsearchOr3,
			k0: [2]records.Target{records.AtMost(2.85), records.AtMost(2.60)}, clock: [2]records.Target{records.AtMost(1.30), records.AtMost(1.00)},
		},
		{
			name: "weibull-5k", kind: "weibull", public: "weibull-5k.json", fresh: 200, formula: 20, heuristic: funsearchWeibull,
			k0: [2]records.Target{records.AtMost(.50), records.AtMost(.40)}, clock: [2]records.Target{records.AtMost(.15), records.AtMost(.08)},
		},
	} {
		dir, err := b.convert(f.name, "funsearch", []string{"funsearch-binpack/" + f.public})
		switch {
		case errors.Is(err, errNoData):
			b.leftOut(f.name + ", public")
		case err != nil:
			return err
		default:
			if err := f.compare(b, dir, "public"); err != nil {
				return err
			}
		}
		if dir, err = b.generate(f.kind, f.kind, 950_000, f.fresh); err != nil {
			return err
		}
		if err := f.compare(b, dir, "fresh"); err != nil {
			return err
		}
	}
	return onedimSpeed(b)
}

// compare adds the lines of one set of instances.
func (f *family) compare(b *bench, dir, set string) error {
	traces, err := trace.LoadAll(dir, trace.DefaultUnpacked)
	if err != nil {
		return err
	}
	limits := map[string]float64{}
	limit, formula, formulaLimit := 0.0, 0.0, 0.0
	for i, t := range traces {
		capacity, items := itemsOf(t)
		sum := int64(0)
		for _, size := range items {
			sum += size
		}
		l1 := math.Ceil(float64(sum) / float64(capacity))
		limits[t.Name] = l1
		limit += l1 / float64(len(traces))
		if i < f.formula {
			formula += float64(f.heuristic(capacity, items))
			formulaLimit += l1
		}
	}
	for _, level := range []struct {
		knowledge, file string
		targets         [2]records.Target
	}{{"K0", "k0", f.k0}, {"K0+clock", "k0-clock", f.clock}} {
		file := fmt.Sprintf("lab/policies/%s-%s.yaml", f.kind, level.file)
		general := "general-" + level.file + "-plain-1d.yaml"
		k, err := b.compare(dir, "firstfit,bestfit,"+general+","+file, 0, "--knowledge", level.knowledge)
		if err != nil {
			return err
		}
		share := func(policy string) (mean, se float64) {
			return k.of(policy, func(c report.Comparison, r report.Run) float64 {
				return 100 * (float64(r.Machines) - limits[c.Trace.Name]) / limit
			})
		}
		others := peers(share, "%.3f", "bestfit", "firstfit") + fmt.Sprintf(", FunSearch %.3f", 100*(formula/formulaLimit-1))
		work := fmt.Sprintf("%s, %d %s instances, %s", f.name, len(traces), set, level.knowledge)
		for _, policy := range []string{file, general} {
			l := records.Line{Work: work + ", " + f.kind + "-" + level.file, Figure: "excess over L1, %", Format: "%.3f", Peers: others}
			if policy == general {
				l.Work, l.Peers = work+", both families", ""
			} else {
				l.Must, l.Aim = level.targets[0], level.targets[1]
			}
			l.Value, l.SE = share(policy)
			b.line(l)
		}
	}
	return nil
}

func itemsOf(t *trace.Trace) (capacity int64, items []int64) {
	for _, e := range t.Events {
		items = append(items, t.Instance.Apps[t.Requests[e.Request].App].Demand[0])
	}
	return t.Instance.Machines[0].Capacity[0], items
}

var onedimRate = regexp.MustCompile(`kind=(\w+)/knowledge=(\S+)\s.*?([\d.e+]+) bestfit-items/CPU-s\s+([\d.e+]+) items/CPU-s`)

// populationPackage holds the benchmark of the model.
const populationPackage = "lab/population"

// onedimSpeed runs the benchmark of the model.
func onedimSpeed(b *bench) error {
	out, _, err := b.runner.Run(b.ctx, records.Command{
		Program: "go", Args: []string{"test", "-C", "lab", "./population", "-run", "^$", "-bench", "BenchmarkPopulation", "-benchtime", "50x"},
	})
	if err != nil {
		return err
	}
	speed := map[string]float64{"orlib": 1e6, "weibull": 2e6}
	found := onedimRate.FindAllStringSubmatch(string(out), -1)
	if len(found) != 2*len(speed) {
		return fmt.Errorf("the benchmark said: %s", out)
	}
	for _, m := range found {
		peer, err1 := strconv.ParseFloat(m[3], 64)
		own, err2 := strconv.ParseFloat(m[4], 64)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		b.line(records.Line{
			Work: m[1] + ", " + m[2], Figure: "million items per CPU-second in replay", Value: own / 1e6,
			Peers: fmt.Sprintf("bestfit %.2f", peer/1e6), Aim: records.AtLeast(speed[m[1]] / 1e6),
		})
	}
	return nil
}

// funsearchOr3 is the heuristic that FunSearch found for or3: an item goes to the
// bin with the highest score of its remaining room, the first among equals.
func funsearchOr3(capacity int64, items []int64) int {
	steps := []struct {
		left  int64
		score float64
	}{{2, 4}, {3, 3}, {5, 2}, {7, 1}, {9, .9}, {12, .95}, {15, .97}, {21, .98}, {math.MaxInt64, .99}}
	return funsearch(capacity, items, func(free []float64, item float64, scores []float64) {
		for i, room := range free {
			for _, s := range steps {
				if int64(room-item) <= s.left {
					scores[i] = s.score
					break
				}
			}
		}
	})
}

// funsearchWeibull is the one for weibull-5k; it subtracts from each bin's score the
// score of the bin before.
func funsearchWeibull(capacity int64, items []int64) int {
	return funsearch(capacity, items, func(free []float64, item float64, scores []float64) {
		before := 0.0
		for i, room := range free {
			far := room - float64(capacity) // an empty bin is among them
			s := far*far/item + room*room/(item*item) + room*room/(item*item*item)
			if room > item {
				s = -s
			}
			scores[i] = s - before
			before = s
		}
	})
}

// funsearch packs items as the authors' program does: score sees the bins that the
// item fits, in their order. There are as many empty bins as items; two represent all,
// since those behind them score the same as the second.
func funsearch(capacity int64, items []int64, score func(free []float64, item float64, scores []float64)) int {
	bins := []int64{capacity, capacity}
	var at []int
	var free, scores []float64
	for _, item := range items {
		at, free = at[:0], free[:0]
		for i, room := range bins {
			if room >= item {
				at, free = append(at, i), append(free, float64(room))
			}
		}
		scores = append(scores[:0], free...)
		score(free, float64(item), scores)
		best := 0
		for i, s := range scores {
			if s > scores[best] {
				best = i
			}
		}
		bins[at[best]] -= item
		for bins[len(bins)-1] < capacity || bins[len(bins)-2] < capacity {
			bins = append(bins, capacity)
		}
	}
	used := 0
	for _, room := range bins {
		if room < capacity {
			used++
		}
	}
	return used
}
