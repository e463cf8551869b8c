package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/sim"
	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// A Comparison of policies on the same arrivals.
type Comparison struct {
	Setting  Setting  `json:"setting"`
	Seeds    []uint64 `json:"seeds"`
	Realised []Number `json:"realised_load"`          // of each seed
	Busiest  []Number `json:"busiest_port,omitempty"` // realised load of that port of a fabric, of each seed
	Policies []Policy `json:"policies"`
}

// Number is null in JSON if it is NaN.
type Number = sheet.Number

// A Setting is the setting of a simulation.
type Setting struct {
	Sizes  string  `json:"sizes"`
	Digest string  `json:"digest"` // of the file
	Mean   float64 `json:"mean_size_bytes"`
	Load   float64 `json:"load"`
	Rate   float64 `json:"rate_bits_per_second"`
	Hosts  int     `json:"hosts"` // 0 = one link
	Exact  bool    `json:"exact"`
	Flows  int     `json:"flows"` // of each seed
	// Connections carry the flows, and a silence of Gap seconds ends the count of bytes sent by one; 0 = one
	// for each flow.
	Connections int     `json:"connections,omitempty"`
	Gap         float64 `json:"gap_seconds,omitempty"`
	WarmUp      int     `json:"warm_up_flows"`
}

// A Policy is one order of flows with its runs.
type Policy struct {
	Name       string          `json:"policy"`
	Thresholds flow.Thresholds `json:"thresholds,omitempty"`
	// ShareOfOracle is the oracle's mean time over this one's, over all seeds: 1 is as fast as
	// it. Null without an oracle.
	ShareOfOracle Number `json:"share_of_oracle"`
	Mean          []Mean `json:"mean"`
	Runs          []Run  `json:"runs"`
}

// A Run is a policy on the arrivals of a seed.
type Run struct {
	Seed    uint64         `json:"seed"`
	Classes [4]sim.Class   `json:"-"`
	List    []ClassFigures `json:"classes"`
}

// ClassFigures are those of a class in one run.
type ClassFigures struct {
	Class string `json:"class"`
	Flows int    `json:"flows"`
	Mean  Number `json:"mean_fct_seconds"`
	P99   Number `json:"p99_fct_seconds"`
	Slow  Number `json:"mean_slowdown"`
	Slow9 Number `json:"p99_slowdown"`
}

// A Mean of a class over the seeds.
type Mean struct {
	Class string         `json:"class"`
	Mean  sheet.Estimate `json:"mean_fct_seconds"`
	P99   sheet.Estimate `json:"p99_fct_seconds"`
	Slow  sheet.Estimate `json:"mean_slowdown"`
	Slow9 sheet.Estimate `json:"p99_slowdown"`
}

// Oracle is given every size; on one link no order has a smaller mean time.
const Oracle = "srpt"

// NewPolicy makes a policy of its runs, by seed. oracle is the mean time of the oracle, NaN without.
func NewPolicy(name string, thresholds flow.Thresholds, seeds []uint64, runs [][4]sim.Class, oracle float64) Policy {
	p := Policy{Name: name, Thresholds: thresholds}
	for i, classes := range runs {
		r := Run{Seed: seeds[i], Classes: classes}
		for k, name := range sim.Classes() {
			c := classes[k]
			r.List = append(r.List, ClassFigures{name, c.Flows, Number(c.Mean), Number(c.P99), Number(c.Slow), Number(c.Slow9)})
		}
		p.Runs = append(p.Runs, r)
	}
	for k, name := range sim.Classes() {
		over := func(value func(c *sim.Class) float64) sheet.Estimate {
			var values []float64
			for i := range p.Runs {
				if v := value(&p.Runs[i].Classes[k]); !math.IsNaN(v) {
					values = append(values, v)
				}
			}
			return sheet.EstimateOf(values)
		}
		p.Mean = append(p.Mean, Mean{
			Class: name,
			Mean:  over(func(c *sim.Class) float64 { return c.Mean }),
			P99:   over(func(c *sim.Class) float64 { return c.P99 }),
			Slow:  over(func(c *sim.Class) float64 { return c.Slow }),
			Slow9: over(func(c *sim.Class) float64 { return c.Slow9 }),
		})
	}
	p.ShareOfOracle = Number(oracle / p.Mean[0].Mean.Mean)
	return p
}

// digits writes a number with three digits, a hyphen for NaN.
func digits(x float64) string {
	if math.IsNaN(x) {
		return "-"
	}
	if x != 0 && (math.Abs(x) >= 1e6 || math.Abs(x) < 1e-4) {
		return strconv.FormatFloat(x, 'g', 3, 64)
	}
	places := 2
	if x != 0 {
		places = max(0, 2-int(math.Floor(math.Log10(math.Abs(x)))))
	}
	return strconv.FormatFloat(x, 'f', places, 64)
}

func milli(seconds float64) string { return digits(1000 * seconds) }

// tables are those of times and of slowdowns.
func (c *Comparison) tables() []sheet.Table {
	names := []string{"all", "short", "medium", "long"}
	of := []string{"all flows", "flows up to 100 kB", "flows up to 10 MB", "flows over 10 MB"}
	times := sheet.Table{Title: "Time in ms", Align: sheet.Right, Columns: []sheet.Column{
		{Head: "policy", About: "order of flows", Words: true}, {Head: "oracle %", About: "the oracle's mean time as a share of this one's; 100 is as fast"},
	}}
	slow := sheet.Table{Title: "Slowdown (time over that of the flow alone)", Align: sheet.Right, Columns: times.Columns[:1:1]}
	several := len(c.Seeds) > 1
	for k, name := range names {
		times.Columns = append(times.Columns, sheet.Column{Head: name, About: "mean time of " + of[k] + ", in ms"})
		if k == 0 && several {
			times.Columns = append(times.Columns, sheet.Column{Head: "±", About: "half of the 95 % interval of the mean over seeds"})
		}
		times.Columns = append(times.Columns, sheet.Column{Head: name + " p99", About: "99th percentile of the same"})
		slow.Columns = append(slow.Columns, sheet.Column{Head: name, About: "mean slowdown of " + of[k]}, sheet.Column{Head: name + " p99", About: "99th percentile of the same"})
	}
	for i := range c.Policies {
		p := &c.Policies[i]
		share := "-"
		if s := float64(p.ShareOfOracle); !math.IsNaN(s) {
			share = strconv.FormatFloat(100*s, 'f', 1, 64)
		}
		t, s := []string{p.Name, share}, []string{p.Name}
		for k, m := range p.Mean {
			t = append(t, milli(m.Mean.Mean))
			if k == 0 && several {
				t = append(t, milli(m.Mean.Half))
			}
			t = append(t, milli(m.P99.Mean))
			s = append(s, digits(m.Slow.Mean), digits(m.Slow9.Mean))
		}
		times.Add(t...)
		slow.Add(s...)
	}
	return []sheet.Table{times, slow}
}

// about describes the simulation in a line.
func (c *Comparison) about() string {
	s := &c.Setting
	where := "one link of " + flow.FormatAmount(s.Rate) + "bit/s"
	if s.Hosts > 0 {
		how := "every port alone, delays added"
		if s.Exact {
			how = "exact"
		}
		where = fmt.Sprintf("%d hosts of %sbit/s, %s", s.Hosts, flow.FormatAmount(s.Rate), how)
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, l := range c.Realised {
		low, high = min(low, float64(l)), max(high, float64(l))
	}
	return fmt.Sprintf("%s, mean %s bytes, load %g (realised %.3f to %.3f) on %s; %d flows and %s, the first %d flows not counted",
		s.Sizes, digits(s.Mean), s.Load, low, high, where+s.carried(), s.Flows, seeds(len(c.Seeds)), s.WarmUp)
}

// carried names the connections that carry the flows.
func (s *Setting) carried() string {
	if s.Connections == 0 {
		return ""
	}
	return fmt.Sprintf(" over %d connections, whose messages a silence of %g s ends", s.Connections, s.Gap)
}

func seeds(n int) string {
	if n == 1 {
		return "one seed"
	}
	return strconv.Itoa(n) + " seeds"
}

// find returns a policy by its name, nil where it was not simulated.
func (c *Comparison) find(name string) *Policy {
	for i := range c.Policies {
		if c.Policies[i].Name == name {
			return &c.Policies[i]
		}
	}
	return nil
}

// The policy that the others are compared with.
const baseline = "fair"

// best is the one with the smallest mean time among those that do not need exact sizes, the
// baselines left out; nil without one.
func (c *Comparison) best() *Policy {
	var best *Policy
	for i := range c.Policies {
		p := &c.Policies[i]
		if p.Name == Oracle || p.Name == baseline || strings.HasPrefix(p.Name, "fifo") {
			continue
		}
		if best == nil || p.Mean[0].Mean.Mean < best.Mean[0].Mean.Mean {
			best = p
		}
	}
	return best
}

// Summary is the comparison in a sentence.
func (c *Comparison) Summary() string {
	best, fair := c.best(), c.find(baseline)
	switch {
	case best == nil:
		return "No policy here orders flows by what it can know: see the tables."
	case fair == nil:
		return fmt.Sprintf("%s has the smallest mean time, %s ms; its short flows take %s ms.", best.Name, milli(best.Mean[0].Mean.Mean), milli(best.Mean[1].Mean.Mean))
	}
	change := func(k int) string {
		a, b := best.Mean[k].Mean.Mean, fair.Mean[k].Mean.Mean
		switch {
		case math.IsNaN(a) || math.IsNaN(b):
			return "there are none"
		case a <= b/2:
			return fmt.Sprintf("%s times faster", digits(b/a))
		case a <= b:
			return fmt.Sprintf("%.1f %% faster", 100*(1-a/b))
		}
		return fmt.Sprintf("%.1f %% slower", 100*(a/b-1))
	}
	return fmt.Sprintf("%s against fair sharing: all flows %s in the mean, short ones %s, long ones %s.", best.Name, change(0), change(1), change(3))
}

// notes list the limits of the figures.
func (c *Comparison) notes() (notes []string) {
	for i := range c.Policies {
		p := &c.Policies[i]
		if p.Thresholds != nil && !strings.Contains(p.Name, p.Thresholds.String()) {
			notes = append(notes, fmt.Sprintf("%s: thresholds %s, found on other arrivals", p.Name, p.Thresholds))
		}
		if strings.HasPrefix(p.Name, "fifo") {
			notes = append(notes, p.Name+": a model of the common queue with one parameter; its short flows are within a factor of two of real ones, so quote no ratio to it")
		}
	}
	if c.Setting.Hosts > 0 && !c.Setting.Exact {
		notes = append(notes, "the oracle is SRPT at every port by itself: no bound on a fabric")
		for i, l := range c.Busiest {
			if l > 1 {
				notes = append(notes, fmt.Sprintf("seed %d: a port had %.2f times what it can send, so that times are too long: take more flows, or all ports at once", c.Seeds[i], float64(l)))
			}
		}
	}
	if c.Setting.Load >= 1 {
		notes = append(notes, "overload: times grow with the number of flows")
	}
	return notes
}
