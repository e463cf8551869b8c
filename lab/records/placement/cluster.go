package placement

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/lab/records"
)

var cluster = Section{
	Name:  "cluster",
	title: "In a cluster: what the installed policy does",
	about: `The installed policy is ` + "`" + installed + "`" + `, as the manifests have it: it chooses among the shipped files by what a live
scheduler knows, and no row needs more than that. K1: a forecast per app, in a cluster the declared replicas; K0: no forecast.
Instances of 400 apps and about 5,000 containers have seeds from 970,000, Kubernetes clusters (roll-outs, daily scaling, jobs,
DaemonSets; fleets of *one* node size, *open* with two or three, *fixed*) from 910,000. No policy was trained or chosen on them.
The first day of a cluster is not measured. On *large* and *fixed* a request asks for several items, and the table's rows for
batches decide; a live scheduler gets pods one by one. Rows with *single pods* show what it does: the same instances, each item a
request of its own, in the order of the file. The best rule in hindsight is the best of ` + strings.ReplaceAll(clusterRules, ",", ", ") + ` on that cluster and day.`,
	run: clusterSize{
		instances: 12, orders: 10, clusters: 40, scale: "1", wide: "22", nodes: "0",
	}.run,
}

const (
	installed    = "manifests/policy.yaml"
	clusterRules = "bestfit,mostallocated,worstfit,dotproduct"
	clusterSeed  = 910_000
)

// clusterSize says how much the section measures.
type clusterSize struct {
	instances, orders int // large and fixed
	clusters          int // of each fleet
	scale, wide       string
	nodes             string
}

func (c clusterSize) run(b *bench) error {
	for _, part := range []func(*bench) error{c.fixed, c.open, c.elastic, c.full, c.loose, c.speed} {
		if err := part(b); err != nil {
			return err
		}
	}
	return nil
}

// A level of knowledge, and the parameters that make traces with it.
type level struct {
	knowledge string
	sets      []string
	single    bool // a pod is a request
}

var (
	levels      = []level{{knowledge: "K1"}, {knowledge: "K0", sets: []string{"forecast=0"}}}
	singleLevel = level{knowledge: "K1, single pods", sets: []string{"single=1"}, single: true}
)

// name is that of a folder.
func (l level) name() string {
	if l.single {
		return "single"
	}
	return l.knowledge
}

// fixed: full fleets reject nothing, loose ones keep empty machines.
func (c clusterSize) fixed(b *bench) error {
	for _, l := range append(slices.Clone(levels), singleLevel) {
		for _, f := range []string{"1.02", "1.5"} {
			k, size, err := c.arrivals(b, "fixed", "fixed-"+f+"-"+l.name(), l, "f="+f)
			if err != nil {
				return err
			}
			rejected := func(policy string) (mean, se float64) {
				return k.of(policy, func(_ report.Comparison, r report.Run) float64 { return 100 * r.Rejected["cpu"] })
			}
			more := func(policy string) (mean, se float64) { return 0 - k.less(policy, "bestfit"), 0 } // 0 - 0 is not -0
			line := records.Line{
				Work: fmt.Sprintf("fixed, %s × bound, %s, %s", f, l.knowledge, size), Figure: "rejected cpu, %", Format: "%.3f", Peers: peers(rejected, "%.3f", "bestfit", "worstfit"),
				Must: records.AtMost(.12), Aim: records.AtMost(.01),
			}
			line.Value, line.SE = rejected(installed)
			if f == "1.5" {
				line.Figure, line.Format, line.Peers = "machines in use more than bestfit, %", "%+.2f", peers(more, "%+.2f", "bestfit", "worstfit")
				line.Must, line.Aim = records.AtMost(3), records.AtMost(0)
				line.Value, line.SE = more(installed)
			}
			b.line(line)
		}
	}
	return nil
}

// arrivals makes instances of large or fixed and replays rules and the installed policy on them.
// A shuffle would part the pods of a workload, so single pods come in the order of the file.
func (c clusterSize) arrivals(b *bench, kind, name string, l level, sets ...string) (k *block, size string, err error) {
	dir, err := b.generate(name, kind, largeSeed, c.instances, slices.Concat([]string{"scale=" + c.scale}, sets, l.sets)...)
	if err != nil {
		return nil, "", err
	}
	orders, size := c.orders, fmt.Sprintf("%d × %d", c.instances, c.orders)
	if l.single {
		orders, size = 0, strconv.Itoa(c.instances)
	}
	k, err = b.compare(dir, "bestfit,worstfit,"+installed, orders)
	return k, size, err
}

// open: instances that only fill up, with forecasts right and wrong.
func (c clusterSize) open(b *bench) error {
	k1, k0 := levels[0], levels[1]
	for _, s := range []struct {
		name, text string
		level      level
		sets       []string
		must, aim  records.Target
	}{
		{"right", "forecast × 1", k1, nil, records.AtMost(.85), records.AtMost(.55)},
		{"high", "forecast × 1.3", k1, []string{"forecast=1.3"}, records.AtMost(1), records.AtMost(.85)},
		{"low", "forecast × .7", k1, []string{"forecast=.7"}, records.AtMost(1), records.AtMost(.85)},
		{"noisy", "every app's forecast × lognormal(.7)", k1, []string{"noise=.7"}, records.AtMost(1), records.AtMost(.85)},
		{"none", "no forecast", k0, nil, records.AtMost(1), records.Target{}},
		{"right-single", "forecast × 1", singleLevel, nil, records.AtMost(.85), records.AtMost(.55)},
		{"high-single", "forecast × 1.3", singleLevel, []string{"forecast=1.3"}, records.AtMost(1), records.AtMost(.85)},
		{"noisy-single", "every app's forecast × lognormal(.7)", singleLevel, []string{"noise=.7"}, records.AtMost(1), records.AtMost(.85)},
	} {
		k, size, err := c.arrivals(b, "large", "large-"+s.name, s.level, s.sets...)
		if err != nil {
			return err
		}
		worst, _ := k.gap("worstfit")
		own, _ := k.gap(installed)
		b.line(records.Line{
			Work: fmt.Sprintf("large, open, %s, %s, %s", s.level.knowledge, s.text, size), Figure: "gap to the bound ÷ Worst-Fit's gap",
			Value: own / worst, Peers: fmt.Sprintf("its gap %.2f %%, ", own) + peers(k.gap, "%.2f", "bestfit", "worstfit"), Must: s.must, Aim: s.aim,
		})
	}
	return nil
}

// kubernetes makes clusters of a fleet and replays rules and the installed policy on them.
func (c clusterSize) kubernetes(b *bench, fleet string, l level, flags ...string) (*block, error) {
	dir, err := b.generate(fleet+"-"+l.knowledge, "kubernetes", clusterSeed, c.clusters, append([]string{"nodes=" + c.nodes, "fleet=" + fleet}, l.sets...)...)
	if err != nil {
		return nil, err
	}
	return b.compare(dir, clusterRules+","+installed, 0, flags...)
}

// elastic: an autoscaler adds nodes and removes empty ones; what counts is their cost over time.
func (c clusterSize) elastic(b *bench) error {
	for _, l := range levels {
		for _, fleet := range []string{"one", "open"} {
			k, err := c.kubernetes(b, fleet, l)
			if err != nil {
				return err
			}
			mean, worse := targets{records.AtMost(-.5), records.AtMost(-2.5)}, targets{records.AtMost(25), records.AtMost(10)}
			if l.knowledge == "K0" {
				mean, worse = targets{}, targets{} // a cluster has a forecast: the declared replicas
			}
			k.elasticLines(b, fmt.Sprintf("kubernetes, %s, %s, %d clusters", fleet, l.knowledge, c.clusters), installed, mean, worse)
		}
	}
	return nil
}

// Figures of Kubernetes clusters.
const (
	against = "cost-seconds of day two against bestfit, %"
	behind  = "clusters in % that cost > 1 % more than with the best rule in hindsight"
	never   = "pods never placed, % of bestfit's"
)

type targets struct{ must, aim records.Target }

// elasticLines are the lines of clusters that an autoscaler sizes.
func (k *block) elasticLines(b *bench, work, policy string, mean, worse targets) {
	line := records.Line{
		Work: work, Figure: against, Format: "%+.2f", Peers: peers(k.againstBestFit, "%+.2f", strings.Split(clusterRules, ",")[1:]...),
		Must: mean.must, Aim: mean.aim,
	}
	if policy != installed {
		line.Peers = peers(k.againstBestFit, "%+.2f", installed) + ", " + line.Peers
	}
	line.Value, line.SE = k.againstBestFit(policy)
	b.line(line)
	line = records.Line{
		Work: work, Figure: behind, Format: "%.1f",
		Peers: peers(k.behind, "%.1f", strings.Split(clusterRules, ",")...), Must: worse.must, Aim: worse.aim,
	}
	line.Value, _ = k.behind(policy)
	b.line(line)
}

// againstBestFit is the mean over clusters of the cost over time against Best-Fit's, in %.
func (k *block) againstBestFit(policy string) (mean, se float64) {
	own, peer := k.costs(policy), k.costs("bestfit")
	for i := range own {
		own[i] = 100 * (own[i]/peer[i] - 1)
	}
	return meanSE(own)
}

// behind is the share of clusters in %, on which a policy costs over 1 % more than
// the best rule.
func (k *block) behind(policy string) (mean, se float64) {
	own, best := k.costs(policy), k.costs("bestfit")
	for rule := range strings.SplitSeq(clusterRules, ",") {
		for i, cost := range k.costs(rule) {
			best[i] = min(best[i], cost)
		}
	}
	for i := range own {
		late := own[i] > 1.01*best[i]
		own[i] = 0
		if late {
			own[i] = 100
		}
	}
	return stat.Mean(own, nil), 0
}

// costs are the cost integrals over time, by trace.
func (k *block) costs(policy string) []float64 {
	return k.perTrace(policy, func(_ report.Comparison, runs []report.Run) float64 { return runs[0].CostSeconds })
}

// full: nodes cannot be added, and pods wait for others to leave.
func (c clusterSize) full(b *bench) error {
	for _, l := range levels {
		k, err := c.kubernetes(b, "fixed", l, "--retry")
		if err != nil {
			return err
		}
		line := records.Line{
			Work: fmt.Sprintf("kubernetes, fixed, %s, %d clusters", l.knowledge, c.clusters), Figure: never,
			Peers: fmt.Sprintf("its pods %.0f, ", k.unplaced(installed)),
			Value: percent(k.unplaced(installed), k.unplaced("bestfit")),
		}
		if l.knowledge == "K1" {
			line.Must, line.Aim = records.AtMost(6), records.AtMost(1)
		}
		line.Peers += peers(func(p string) (float64, float64) { return k.unplaced(p), 0 }, "%.0f", strings.Split(clusterRules, ",")...)
		b.line(line)
	}
	return nil
}

// loose: nodes that stay empty could be removed.
func (c clusterSize) loose(b *bench) error {
	dir, err := b.generate("loose-K1", "kubernetes", clusterSeed, c.clusters, "nodes="+c.nodes, "fleet=fixed", "f=1.5")
	if err != nil {
		return err
	}
	k, err := b.compare(dir, clusterRules+","+installed, 0, "--retry")
	if err != nil {
		return err
	}
	more := func(policy string) (mean, se float64) {
		busy := func(policy string) []float64 {
			return k.perTrace(policy, func(_ report.Comparison, runs []report.Run) float64 { return runs[0].MachineSeconds })
		}
		own, peer := busy(policy), busy("bestfit")
		for i := range own {
			own[i] = 100 * (own[i]/peer[i] - 1)
		}
		return meanSE(own)
	}
	line := records.Line{
		Work: fmt.Sprintf("kubernetes, fixed, 1.5 × the peak, K1, %d clusters", c.clusters), Figure: "machine-seconds of day two against bestfit, %", Format: "%+.2f",
		Peers: peers(more, "%+.2f", strings.Split(clusterRules, ",")[1:]...) + fmt.Sprintf("; pods never placed: its %.0f, bestfit %.0f", k.unplaced(installed), k.unplaced("bestfit")),
		Must:  records.AtMost(3), Aim: records.AtMost(0),
	}
	line.Value, line.SE = more(installed)
	b.line(line)
	return nil
}

// unplaced is the number of items that were never placed, over all traces.
func (k *block) unplaced(policy string) (sum float64) {
	for _, n := range k.perTrace(policy, func(_ report.Comparison, runs []report.Run) float64 { return float64(runs[0].Unplaced) }) {
		sum += n
	}
	return sum
}

// percent is a share of a whole; of nothing, nothing is 0 and the rest too much.
func percent(part, whole float64) float64 {
	switch {
	case whole > 0:
		return 100 * part / whole
	case part > 0:
		return math.Inf(1)
	}
	return 0
}

const wideWork = "fixed fleet of about 6,000 machines, 1,900 apps, 100,000 containers"

// speed: decisions per CPU-second, on one core.
func (c clusterSize) speed(b *bench) error {
	wide, err := b.generate("wide", "fixed", largeSeed, 1, "scale="+c.wide)
	if err != nil {
		return err
	}
	for _, s := range []struct {
		work, dir string
		must, aim records.Target
	}{
		{wideWork, wide, records.AtLeast(20_000), records.AtLeast(100_000)},
		{fmt.Sprintf("large, open, K1, %d × %d", c.instances, c.orders), b.path("large-right"), records.Target{}, records.Target{}},
		{fmt.Sprintf("kubernetes, one, K1, %d clusters", c.clusters), b.path("one-K1"), records.Target{}, records.Target{}},
	} {
		orders := 0
		if s.dir == b.path("large-right") {
			orders = c.orders
		}
		k, err := b.compare(s.dir, "bestfit,worstfit,"+installed, orders, "--timing", "--workers", "1")
		if err != nil {
			return err
		}
		line := records.Line{
			Work: s.work, Figure: "decisions per CPU-second", Format: "%.0f", Peers: peers(k.rate, "%.0f", "bestfit", "worstfit"),
			Must: s.must, Aim: s.aim,
		}
		line.Value, _ = k.rate(installed)
		b.line(line)
	}
	return nil
}

// rate is the number of items ÷ the CPU seconds of their replays.
func (k *block) rate(policy string) (mean, se float64) {
	items, seconds := 0., 0.
	k.perTrace(policy, func(c report.Comparison, runs []report.Run) float64 {
		for _, r := range runs {
			items += float64(c.Trace.Items)
			seconds += r.Seconds
		}
		return 0
	})
	return items / seconds, 0
}
