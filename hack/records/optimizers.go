package main

import (
	"fmt"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"
)

var optimizers = section{
	name:  "optimizers",
	title: "Swarm, CMA-ES and random search at equal replays",
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
}

const seeds = 5

func runOptimizers(b *bench) error {
	generated := func(name, kind string, seed uint64, count int, sets ...string) func(*bench) (string, error) {
		return func(b *bench) (string, error) { return b.generate(name, kind, seed, count, sets...) }
	}
	wins := 0
	contests := []contest{
		{
			name:  "small, K1",
			train: generated("small-train", "small", 1, 16), test: generated("small-test", "small", 960_000, 30),
			flags: []string{"--knowledge", "K1", "--orders", "2"}, evaluations: 200, orders: 5,
		},
		{
			name:  "large at scale .2, K1+clock",
			train: generated("large-train", "large", 1, 6, "scale=.2"), test: generated("large-test", "large", 960_000, 20, "scale=.2"),
			flags: []string{"--knowledge", "K1+clock", "--orders", "1"}, evaluations: 150, orders: 3,
		},
	}
	for _, c := range contests {
		won, err := c.run(b)
		if err != nil {
			return err
		}
		if won {
			wins++
		}
	}
	b.line(line{
		work: "tasks", figure: fmt.Sprintf("of %d on which the swarm's mean is the best", len(contests)),
		value: float64(wins), format: "%.0f", aim: atLeast(float64(len(contests)/2 + 1)),
	})
	return nil
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
	for _, o := range names {
		for seed := 1; seed <= seeds; seed++ {
			file := b.path(fmt.Sprintf("%s-%s-%d.yaml", strings.Fields(c.name)[0][:5], o, seed))
			args := append([]string{
				"train", "--trace", train, "--optimizer", o, "--seed", strconv.Itoa(seed),
				"--evaluations", strconv.Itoa(c.evaluations), "--out", file,
			}, c.flags...)
			if _, _, err := b.sigma(args...); err != nil {
				return false, err
			}
			files[o] = append(files[o], file)
			all = append(all, file)
		}
	}
	k, err := b.compare(test, strings.Join(append(all, "bestfit"), ","), c.orders)
	if err != nil {
		return false, err
	}
	half := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: seeds - 1}.Quantile(.975)
	figure := map[string][2]float64{}
	for _, o := range names {
		var list []float64
		for _, file := range files[o] {
			m, _ := k.machines(file)
			list = append(list, m)
		}
		m, se := meanSE(list)
		figure[o] = [2]float64{m, half * se}
	}
	text := func(o string) string { return fmt.Sprintf("%s %.2f ± %.2g", o, figure[o][0], figure[o][1]) }
	best, _ := k.machines("bestfit")
	b.line(line{
		work: c.name, figure: fmt.Sprintf("machines after %d evaluations", c.evaluations),
		value: figure["swarm"][0], se: figure["swarm"][1],
		peers: fmt.Sprintf("%s, %s; bestfit %.2f", text("cmaes"), text("random"), best),
	})
	return figure["swarm"][0] <= figure["cmaes"][0] && figure["swarm"][0] <= figure["random"][0], nil
}
