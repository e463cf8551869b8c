package savings

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// A bill is the JSON of sigma savings.
type bill struct {
	Currency string
	Cost     struct{ Now, Floor float64 }
	Steps    []step
	Rest     float64
}

type step struct {
	Cause   string
	AnyType bool `json:"any_type"`
	Nodes   float64
	Money   *struct{ Mean, Low, High float64 }
	Bound   float64
	Risk    string
	Command string
}

func (b *bill) step(cause string) step {
	for _, s := range b.Steps {
		if s.name() == cause {
			return s
		}
	}
	return step{Cause: cause}
}

// name is the cause, with a name of its own for that of other instance types.
func (s *step) name() string {
	if s.AnyType {
		return "types"
	}
	return s.Cause
}

func (s *step) mean() float64 {
	if s.Money == nil {
		return 0
	}
	return s.Money.Mean
}

func cents(v float64) int64 { return int64(math.Round(v * 100)) }

// sums returns what is wrong with the sum of a bill.
func (b *bill) sums() (wrong []string) {
	sum := cents(b.Rest) + cents(b.Cost.Floor)
	for i := range b.Steps {
		s := &b.Steps[i]
		sum += cents(s.mean())
		if s.Money != nil && cents(s.Money.Mean) > cents(s.Bound) {
			wrong = append(wrong, fmt.Sprintf("%s: %.2f is above its bound %.2f", s.Cause, s.Money.Mean, s.Bound))
		}
		if m := s.Money; m != nil && (m.Mean < 0 || m.Low > m.Mean || m.High < m.Mean) {
			wrong = append(wrong, fmt.Sprintf("%s: %.2f is not between %.2f and %.2f, or negative", s.Cause, m.Mean, m.Low, m.High))
		}
	}
	if sum != cents(b.Cost.Now) {
		wrong = append(wrong, fmt.Sprintf("the parts are %d cents, the whole %d", sum, cents(b.Cost.Now)))
	}
	if b.Rest < 0 {
		wrong = append(wrong, "the rest is negative")
	}
	return wrong
}

// equal returns the steps in which two bills differ.
func (b *bill) equal(other *bill) (wrong []string) {
	if b.Cost != other.Cost || b.Rest != other.Rest {
		wrong = append(wrong, fmt.Sprintf("cost %v, rest %.2f; then %v, %.2f", b.Cost, b.Rest, other.Cost, other.Rest))
	}
	for _, s := range b.Steps {
		o := other.step(s.name())
		if s.mean() != o.mean() || s.Nodes != o.Nodes || s.Bound != o.Bound {
			wrong = append(wrong, fmt.Sprintf("%s: %.2f, %v nodes, bound %.2f; then %.2f, %v, %.2f", s.Cause, s.mean(), s.Nodes, s.Bound, o.mean(), o.Nodes, o.Bound))
		}
	}
	return wrong
}

// records reads a CSV file with a head, a map a line.
func readCSV(path string) (rows []map[string]string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	all, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return nil, err
	}
	for _, line := range all[1:] {
		row := map[string]string{}
		for i, name := range all[0] {
			row[name] = line[i]
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// costs are the costs an hour of the machines of a trace, by name.
func costs(dir string) (map[string]float64, error) {
	rows, err := readCSV(filepath.Join(dir, "machines.csv"))
	if err != nil {
		return nil, err
	}
	of := map[string]float64{}
	for _, row := range rows {
		if of[row["machine"]], err = strconv.ParseFloat(row["cost"], 64); err != nil {
			return nil, err
		}
	}
	return of, nil
}

var numbered = regexp.MustCompile(`-\d{5,}$`)

// hourly is the cost of machines; those of a line of any number have a number after its name.
func hourly(of map[string]float64, used map[string]bool) (sum float64) {
	for name := range used {
		cost, ok := of[name]
		if !ok {
			cost = of[strings.TrimSuffix(name, numbered.FindString(name))]
		}
		sum += cost
	}
	return sum
}

// machines are the machines of files of placements: placed.csv, and those of a replay or a plan.
func machines(paths ...string) (map[string]bool, error) {
	used := map[string]bool{}
	for _, path := range paths {
		rows, err := readCSV(path)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			if row["machine"] != "" && row["kind"] != "unplaced" {
				used[row["machine"]] = true
			}
		}
	}
	return used, nil
}
