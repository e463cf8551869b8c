package placement

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/sigma-scheduler/sigma/lab/records"
	"github.com/sigma-scheduler/sigma/swarm"
)

var severalObjectives = Section{
	Name:  "objectives",
	title: "Several objectives: the swarm's front and one of random positions",
	about: `The front that the swarm finds and that of as many random positions, with five seeds each. The figure is the
share of the box between the best and the worst values of all fronts of a task that a front dominates (hypervolume),
mean over seeds ± half of the 95 % interval (Student's t).`,
	run: runObjectives,
}

func runObjectives(b *bench) error {
	for _, task := range []struct {
		name, kind  string
		count       int
		sets, flags []string
		objectives  string
		evaluations int
	}{
		{"small, K1", "small", 8, nil, []string{"--orders", "2"}, "machines,balance,spread", 400},
		{"large at scale .2, K1+clock", "large", 3, []string{"scale=.2"}, []string{"--knowledge", "K1+clock", "--orders", "1"}, "machines,mean_machines,balance,spread", 400},
	} {
		dir, err := b.generate(task.kind, task.kind, 1, task.count, task.sets...)
		if err != nil {
			return err
		}
		fronts := map[string][][][]float64{}
		var all [][]float64
		for _, optimizer := range []string{"swarm", "random"} {
			for seed := 1; seed <= seeds; seed++ {
				out := b.path(fmt.Sprintf("%s-%s-%d", task.kind, optimizer, seed))
				args := append([]string{
					"train", "--trace", dir, "--objectives", task.objectives, "--optimizer", optimizer, "--seed", strconv.Itoa(seed),
					"--evaluations", strconv.Itoa(task.evaluations), "--out", out,
				}, task.flags...)
				if _, _, err := b.sigma(args...); err != nil {
					return err
				}
				points, err := readFront(filepath.Join(out, "front.csv"))
				if err != nil {
					return err
				}
				fronts[optimizer] = append(fronts[optimizer], points)
				all = append(all, points...)
			}
		}
		share := func(optimizer string) (mean, half float64, err error) {
			var list []float64
			for _, points := range fronts[optimizer] {
				v, err := dominated(points, all)
				if err != nil {
					return 0, 0, err
				}
				list = append(list, v)
			}
			mean, se := meanSE(list)
			return mean, se * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: seeds - 1}.Quantile(.975), nil
		}
		found, half, err := share("swarm")
		if err != nil {
			return err
		}
		control, controlHalf, err := share("random")
		if err != nil {
			return err
		}
		b.line(records.Line{
			Work: task.name, Figure: fmt.Sprintf("%s: hypervolume after %d evaluations", task.objectives, task.evaluations),
			Value: found, Format: "%.3f", SE: half, Peers: fmt.Sprintf("random %.3f ± %.2g", control, controlHalf), Must: records.AtLeast(control),
		})
	}
	return nil
}

// readFront returns the objectives in a front.csv.
func readFront(path string) ([][]float64, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return nil, err
	}
	last := 1
	for last < len(lines[0]) && isObjective(lines[0][last]) {
		last++
	}
	var points [][]float64
	for _, line := range lines[1:] {
		var p []float64
		for _, text := range line[1:last] {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			p = append(p, v)
		}
		points = append(points, p)
	}
	return points, nil
}

func isObjective(column string) bool {
	switch column {
	case "machines", "mean_machines", "cost", "balance", "spread":
		return true
	}
	return false
}

// dominated is the share of the box around all points that the given ones
// dominate.
func dominated(points, all [][]float64) (float64, error) {
	n := len(all[0])
	low, high := make([]float64, n), make([]float64, n)
	for k := range n {
		low[k], high[k] = math.Inf(1), math.Inf(-1)
		for _, p := range all {
			low[k], high[k] = min(low[k], p[k]), max(high[k], p[k])
		}
	}
	a := swarm.NewArchive(n)
	for _, p := range points {
		unit := make([]float64, n)
		for k := range unit {
			unit[k] = (p[k] - low[k]) / (high[k] - low[k])
		}
		if _, err := a.Add(swarm.Point{Objectives: unit}); err != nil {
			return 0, err
		}
	}
	reference := make([]float64, n)
	for k := range reference {
		reference[k] = 1
	}
	return a.Hypervolume(reference), nil
}
