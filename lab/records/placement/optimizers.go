package placement

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/lab/records"
)

var optimizers = Section{
	Name:     "optimizers",
	research: true,
	title:    "Swarm, CMA-ES and random search at equal replays",
	about: `Each optimiser trains with five seeds on the same instances with the same number of replays;
the policies are then replayed on test instances. The figure is the mean over seeds, ± half
of the 95 % interval (Student's t).`,
	run: runOptimizers,
}

// A contest is one task on which optimisers are compared.
type contest struct {
	name        string
	train, test func(b *bench) (string, error) // folders of traces
	flags       []string                       // of train
	evaluations int
	orders      int // of the test
	figure      string
	of          func(k *block, policy string) float64 // lower is better
	peer        string
}

const seeds = 5

func runOptimizers(b *bench) error {
	machines := func(k *block, policy string) float64 { m, _ := k.machines(policy); return m }
	rejected := func(k *block, policy string) float64 {
		m, _ := k.of(policy, func(_ report.Comparison, r report.Run) float64 { return 100 * r.Rejected["gpu"] })
		return m
	}
	generated := func(name, kind string, seed uint64, count int, sets ...string) func(*bench) (string, error) {
		return func(b *bench) (string, error) { return b.generate(name, kind, seed, count, sets...) }
	}
	wins := 0
	contests := []contest{
		{
			name:  "small, K1",
			train: generated("small-train", "small", 1, 16), test: generated("small-test", "small", 960_000, 30),
			flags: []string{"--knowledge", "K1", "--orders", "2"}, evaluations: 300, orders: 5,
			figure: "machines", of: machines, peer: "bestfit",
		},
		{
			name:  "large at scale .2, K1+clock",
			train: generated("large-train", "large", 1, 6, "scale=.2"), test: generated("large-test", "large", 960_000, 20, "scale=.2"),
			flags: []string{"--knowledge", "K1+clock", "--orders", "1"}, evaluations: 200, orders: 3,
			figure: "machines", of: machines, peer: "bestfit",
		},
		{
			name:  "or3-like, K0+clock",
			train: generated("orlib-train", "orlib", 1, 20), test: generated("orlib-test", "orlib", 960_000, 100),
			flags: []string{"--model", "population", "--knowledge", "K0+clock"}, evaluations: 150, orders: 0,
			figure: "machines", of: machines, peer: "bestfit",
		},
		{
			name:  "openb, K1",
			train: openb("openb-train", "1", "cpu100", "multigpu20"), test: openb("openb-test", "42", "default", "gpuspec33"),
			flags: []string{"--model", "devices", "--knowledge", "K1"}, evaluations: 120, orders: 0,
			figure: "GPU rejected %", of: rejected, peer: "fgd",
		},
	}
	count := 0
	for _, c := range contests {
		won, err := c.run(b)
		if errors.Is(err, errNoData) {
			b.leftOut(c.name)
			continue
		}
		if err != nil {
			return err
		}
		count++
		if won {
			wins++
		}
	}
	b.line(records.Line{
		Work: "tasks", Figure: fmt.Sprintf("of %d on which the swarm's mean is the best", count),
		Value: float64(wins), Format: "%.0f", Aim: records.AtLeast(float64(count/2 + 1)),
	})
	return nil
}

// openb converts lists of the set, one trace each.
func openb(name, seed string, lists ...string) func(*bench) (string, error) {
	return func(b *bench) (string, error) {
		for _, list := range lists {
			if _, err := b.convert(filepath.Join(name, list), "openb", []string{"openb"}, "--list", list, "--seed", seed); err != nil {
				return "", err
			}
		}
		return b.path(name), nil
	}
}

// run trains and tests all optimisers and reports whether the swarm is the best.
func (c contest) run(b *bench) (won bool, err error) {
	train, err := c.train(b)
	if err != nil {
		return false, err
	}
	test, err := c.test(b)
	if err != nil {
		return false, err
	}
	names := []string{"swarm", "cmaes", "random"}
	files := map[string][]string{}
	var all []string
	short, _, _ := strings.Cut(c.name, ",")
	short = strings.ReplaceAll(short, " ", "-")
	args := func(o, seed string) []string {
		file := b.path(fmt.Sprintf("%s-%s-%s.yaml", short, o, seed))
		return append([]string{
			"train", "--trace", train, "--optimizer", o, "--seed", seed, "--evaluations", strconv.Itoa(c.evaluations), "--out", file,
		}, c.flags...)
	}
	err = b.runner.Loop(fmt.Sprintf("for o in %s; do for s in $(seq %d); do bin/sigma %s; done; done",
		strings.Join(names, " "), seeds, strings.Join(args("$o", "$s"), " ")), func() error {
		for _, o := range names {
			for seed := 1; seed <= seeds; seed++ {
				a := args(o, strconv.Itoa(seed))
				if _, _, err := b.sigma(a...); err != nil {
					return err
				}
				file := a[slices.Index(a, "--out")+1]
				files[o] = append(files[o], file)
				all = append(all, file)
			}
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	k, err := b.compare(test, strings.Join(append(all, c.peer), ","), c.orders)
	if err != nil {
		return false, err
	}
	half := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: seeds - 1}.Quantile(.975)
	figure := map[string][2]float64{}
	for _, o := range names {
		var list []float64
		for _, file := range files[o] {
			list = append(list, c.of(k, file))
		}
		m, se := meanSE(list)
		figure[o] = [2]float64{m, half * se}
	}
	text := func(o string) string { return fmt.Sprintf("%s %.2f ± %.2g", o, figure[o][0], figure[o][1]) }
	b.line(records.Line{
		Work: c.name, Figure: fmt.Sprintf("%s after %d evaluations", c.figure, c.evaluations),
		Value: figure["swarm"][0], SE: figure["swarm"][1],
		Peers: fmt.Sprintf("%s, %s; %s %.2f", text("cmaes"), text("random"), c.peer, c.of(k, c.peer)),
	})
	return figure["swarm"][0] <= figure["cmaes"][0] && figure["swarm"][0] <= figure["random"][0], nil
}
