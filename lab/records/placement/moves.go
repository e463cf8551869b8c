package placement

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/lab/records"
)

var moves = Section{
	Name:     "moves",
	research: true,
	title:    "A few moves: what they are worth",
	about: `Items move from machine to machine: in a replay to let in what fits nowhere (` + "`--repair`" + `) or at each tick to empty machines
(` + "`--rebalance`" + `), and after the fact by ` + "`sigma rebalance`" + `. Moves in % are of the items placed, or of those that stood. Bounds know nothing of moves, and hold with them.
Instances have seeds from 983,000, Kubernetes clusters from 910,000. "Drain" empties the machines with the fewest items by Best-Fit, as
cluster-autoscaler and Karpenter do it.`,
	run: movesSize{instances: 12, orders: 10, opens: 4, openOrders: 3, drained: 6, clusters: 40, scale: "1", wide: "15", nodes: "0"}.run,
}

const (
	movesSeed    = 983_001
	repairPolicy = "repair-k0-fixed.yaml"
)

// movesSize says how much the section measures.
type movesSize struct {
	instances, orders int // that fill up
	opens, openOrders int // that fill up an open fleet, which takes many moves
	drained           int // instances that are emptied afterwards
	clusters          int // of each fleet
	scale, wide       string
	nodes             string
}

func (m movesSize) run(b *bench) error {
	for _, part := range []func(*bench) error{m.fixed, m.open, m.small, m.drain, m.wideDrain, m.tianchi, m.azure, m.elastic} {
		if err := part(b); err != nil {
			return err
		}
	}
	return nil
}

// movesShare is the mean of moves ÷ items placed, in %.
func (k *block) movesShare(policy string) (mean, se float64) {
	return k.of(policy, func(_ report.Comparison, r report.Run) float64 { return percent(float64(r.Moves), float64(r.Placed)) })
}

func (k *block) rejectedCPU(policy string) (mean, se float64) {
	return k.of(policy, func(_ report.Comparison, r report.Run) float64 { return 100 * r.Rejected["cpu"] })
}

// allPlaced is the share of runs in % that leave nothing out.
func (k *block) allPlaced(policy string) (mean, se float64) {
	return k.of(policy, func(_ report.Comparison, r report.Run) float64 {
		if r.Unplaced > 0 {
			return 0
		}
		return 100
	})
}

// With and without moves.
type pair struct {
	work         string
	moved, plain *block
}

func (b *bench) pair(name, kind string, instances, orders int, flags []string, sets ...string) (p pair, err error) {
	dir, err := b.generate(name, kind, movesSeed, instances, sets...)
	if err != nil {
		return p, err
	}
	p.work = fmt.Sprintf("%d × %d, Best-Fit, %s %s", instances, orders, flags[0], flags[1])
	if p.plain, err = b.compare(dir, "bestfit,worstfit", orders); err != nil {
		return p, err
	}
	p.moved, err = b.compare(dir, "bestfit,"+repairPolicy, orders, append(flags, "--knowledge", "K0")...)
	return p, err
}

// line is a figure of Best-Fit with moves beside the rules without, and beside the policy that is
// trained with moves.
func (p *pair) line(work, figure, format string, f func(k *block) func(policy string) (mean, se float64), must, aim records.Target) records.Line {
	l := records.Line{
		Work: work + p.work, Figure: figure, Format: format, Must: must, Aim: aim,
		Peers: peers(f(p.moved), format, repairPolicy) + "; without moves: " + peers(f(p.plain), format, "bestfit", "worstfit"),
	}
	l.Value, l.SE = f(p.moved)("bestfit")
	return l
}

func (p *pair) movesLine(work string, must, aim records.Target) records.Line {
	l := records.Line{Work: work + p.work, Figure: "moves, %", Must: must, Aim: aim, Peers: peers(p.moved.movesShare, "%.2f", repairPolicy)}
	l.Value, l.SE = p.moved.movesShare("bestfit")
	return l
}

// trained are the lines of the policy that is trained with moves.
func (p *pair) trained(b *bench, work string) {
	work += strings.Replace(p.work, "Best-Fit", repairPolicy, 1)
	l := records.Line{Work: work, Figure: "rejected cpu, %", Format: "%.4f", Must: records.AtMost(.02), Aim: records.AtMost(0)}
	l.Value, l.SE = p.moved.rejectedCPU(repairPolicy)
	b.line(l)
	l = records.Line{Work: work, Figure: "moves, %", Must: records.AtMost(3), Aim: records.AtMost(1.2)}
	l.Value, l.SE = p.moved.movesShare(repairPolicy)
	b.line(l)
	peer, _ := p.moved.movesShare("bestfit")
	b.line(records.Line{
		Work: work, Figure: "moves against bestfit with moves, %", Format: "%+.0f", Value: percent(l.Value, peer) - 100, Must: records.AtMost(-20), Aim: records.AtMost(-50),
	})
}

// fixed: a fleet of exactly the volume bound.
func (m movesSize) fixed(b *bench) error {
	p, err := b.pair("fixed", "fixed", m.instances, m.orders, []string{"--repair", "budget=3%,chain=8"}, "scale="+m.scale, "f=1")
	if err != nil {
		return err
	}
	const work = "fixed, 1.00 × bound, K0, "
	b.line(p.line(work, "rejected cpu, %", "%.4f", func(k *block) func(string) (float64, float64) { return k.rejectedCPU }, records.AtMost(.02), records.AtMost(0)))
	b.line(p.movesLine(work, records.AtMost(3), records.AtMost(1.2)))
	p.trained(b, work)
	return nil
}

// open: a machine is added only where moves do not help.
func (m movesSize) open(b *bench) error {
	p, err := b.pair("large", "large", m.opens, m.openOrders, []string{"--repair", "budget=100%,chain=8"}, "scale="+m.scale)
	if err != nil {
		return err
	}
	const work = "large, open, K0, "
	b.line(p.line(work, "gap to the bound, %", "%.2f", func(k *block) func(string) (float64, float64) { return k.gap }, records.AtMost(.5), records.AtMost(0)))
	b.line(p.line(work, "range over the orders, machines", "%.2f", func(k *block) func(string) (float64, float64) { return k.width }, records.AtMost(1), records.AtMost(0)))
	b.line(p.movesLine(work, records.Target{}, records.Target{}))
	return nil
}

// small: 15 machines, which the items fit on exactly.
func (m movesSize) small(b *bench) error {
	p, err := b.pair("small", "small", m.instances, m.orders, []string{"--repair", "budget=100%,chain=8"}, "fleet=fixed")
	if err != nil {
		return err
	}
	const work = "small, fixed, 15 machines, K0, "
	b.line(p.line(work, "orders with nothing left out, %", "%.1f", func(k *block) func(string) (float64, float64) { return k.allPlaced }, records.AtLeast(80), records.AtLeast(95)))
	b.line(p.movesLine(work, records.Target{}, records.Target{}))
	return nil
}

// rebalanced is what sigma rebalance prints as JSON.
type rebalanced struct {
	Before int     `json:"machines_before"`
	After  int     `json:"machines_after"`
	Bound  int     `json:"bound"`
	Share  float64 `json:"moves_percent"` // of the items that stood
	Curve  []point `json:"curve"`
	items  int     // that stood
}

type point struct {
	Moves int `json:"moves"`
	Freed int `json:"freed"`
	Drain int `json:"drain_freed"`
}

// freed is the number of machines that so many moves free, and a drain without swaps.
func (r *rebalanced) freed(moves int) (own, drain int) {
	for _, p := range r.Curve {
		if p.Moves <= moves {
			own, drain = p.Freed, p.Drain
		}
	}
	return own, drain
}

// rebalance places a trace by Best-Fit and rebalances it.
func (b *bench) rebalance(path, from string, flags ...string) (r *rebalanced, seconds float64, err error) {
	start := path + "-start.csv"
	if _, _, err := b.sigma("replay", "--trace", path, "--policy", from, "--placements", start, "--quiet"); err != nil {
		return nil, 0, err
	}
	out, seconds, err := b.sigma(append([]string{"rebalance", "--trace", path, "--placements", start, "--out", path + "-moves.csv", "--format", "json", "--quiet"}, flags...)...)
	if err != nil {
		return nil, 0, err
	}
	placed, err := trace.ReadPlacements(start)
	if err != nil {
		return nil, 0, err
	}
	r = &rebalanced{items: len(placed)} // each item has one line, and none is left out
	return r, seconds, json.Unmarshal(out, r)
}

// drain: after Best-Fit, as far as the bound.
func (m movesSize) drain(b *bench) error {
	dir, err := b.generate("drained", "large", movesSeed, m.drained, "scale="+m.scale)
	if err != nil {
		return err
	}
	var over, shares, ratios []float64
	for i := range m.drained {
		flags := []string{"--until-bound"}
		if i == 0 {
			flags = append(flags, "--picture", b.path("moves.svg"))
		}
		r, _, err := b.rebalance(filepath.Join(dir, fmt.Sprintf("large-%d", movesSeed+i)), "bestfit", flags...)
		if err != nil {
			return err
		}
		over, shares = append(over, float64(r.After-r.Bound)), append(shares, r.Share)
		own, drain := r.freed(r.items / 100)
		ratios = append(ratios, float64(own)/float64(max(drain, 1)))
	}
	b.files = append(b.files, b.path("moves.svg"))
	b.parts = append(b.parts, part{fmt.Sprintf("Seed %d", movesSeed), "![machines freed against items moved](moves.svg)"})
	work := fmt.Sprintf("after Best-Fit, large × %d", m.drained)
	line := records.Line{Work: work, Figure: "machines over the bound at the end", Must: records.AtMost(1), Aim: records.AtMost(0)}
	line.Value, line.SE = meanSE(over)
	b.line(line)
	line = records.Line{Work: work, Figure: "moves to the end, %", Must: records.AtMost(4), Aim: records.AtMost(2.5)}
	line.Value, line.SE = meanSE(shares)
	b.line(line)
	line = records.Line{Work: work, Figure: "machines freed at 1 % of moves ÷ drain's", Must: records.AtLeast(3), Aim: records.AtLeast(4.5)}
	line.Value, line.SE = meanSE(ratios)
	b.line(line)
	return nil
}

// wideDrain: 79,145 pods on 4,546 nodes.
func (m movesSize) wideDrain(b *bench) error {
	dir, err := b.generate("wide", "large", 980_004, 1, "scale="+m.wide)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "large-980004")
	r, seconds, err := b.rebalance(path, "bestfit", "--moves", ".5%")
	if err != nil {
		return err
	}
	work := fmt.Sprintf("after Best-Fit, %d items on %d machines", r.items, r.Before)
	own, drain := r.freed(r.items / 200)
	b.line(records.Line{
		Work: work, Figure: "machines freed by .5 % of moves", Value: float64(own), Format: "%.0f",
		Peers: fmt.Sprintf("drain %d; %.1f CPU-s in all", drain, seconds), Must: records.AtLeast(140), Aim: records.AtLeast(164),
	})
	r, seconds, err = b.rebalance(path, "bestfit", "--machines", strconv.Itoa(r.Bound+1))
	if err != nil {
		return err
	}
	b.line(records.Line{
		Work: work, Figure: "moves to bound + 1, %", Value: r.Share,
		Peers: fmt.Sprintf("ends at %d, bound %d; %.1f CPU-s in all", r.After, r.Bound, seconds), Must: records.AtMost(1.2), Aim: records.AtMost(.9),
	})
	return nil
}

// tianchi: 200 dimensions and 13,144 rules.
func (m movesSize) tianchi(b *bench) error {
	dir, err := b.convert("tianchi", "tianchi", []string{"tianchi2018-common", "tianchi2018-prelim-b"}, "--large-first", "--empty")
	if errors.Is(err, errNoData) {
		b.leftOut("Tianchi")
		return nil
	}
	if err != nil {
		return err
	}
	const target = 2330
	r, seconds, err := b.rebalance(dir, "dotproduct", "--machines", strconv.Itoa(target))
	if err != nil {
		return err
	}
	b.line(records.Line{
		Work: fmt.Sprintf("tianchi-prelim-b, dotproduct, %d machines, --machines %d", r.Before, target), Figure: "moves, %", Value: r.Share,
		Peers: fmt.Sprintf("ends at %d, bound %d; %.1f CPU-s in all", r.After, r.Bound, seconds), Must: records.AtMost(4),
	})
	return nil
}

// azure: departures, and drains at each tick.
func (m movesSize) azure(b *bench) error {
	dir, err := b.convert("azure", "azure", []string{"azure-v1-flavors"}, "--from", "1950000", "--quiet")
	if errors.Is(err, errNoData) {
		b.leftOut("Azure")
		return nil
	}
	if err != nil {
		return err
	}
	plain, err := b.compare(dir, "bestfit", 0)
	if err != nil {
		return err
	}
	limit := plain.traces[0].Bound.CostSeconds
	worst, _ := plain.costSeconds("bestfit")
	for _, s := range []struct {
		every, moves string
		must, aim    float64
	}{{"15m", ".09%", 35, 45}, {"15m", ".5%", 60, 75}} {
		k, err := b.compare(dir, "bestfit", 0, "--rebalance", "every="+s.every+",moves="+s.moves)
		if err != nil {
			return err
		}
		cost, _ := k.costSeconds("bestfit")
		share, _ := k.movesShare("bestfit")
		b.line(records.Line{
			Work: "azure, rows from 1,950,000 s on, Best-Fit, --rebalance every=" + s.every + ",moves=" + s.moves, Figure: "gap to the bound that is closed, %",
			Value: 100 * (worst - cost) / (worst - limit), Format: "%.1f", Peers: fmt.Sprintf("%.2f %% of items moved", share),
			Must: records.AtLeast(s.must), Aim: records.AtLeast(s.aim),
		})
	}
	return nil
}

// elastic: an autoscaler removes what the moves empty.
func (m movesSize) elastic(b *bench) error {
	for _, fleet := range []string{"one", "open"} {
		dir, err := b.generate("kubernetes-"+fleet, "kubernetes", clusterSeed, m.clusters, "nodes="+m.nodes, "fleet="+fleet)
		if err != nil {
			return err
		}
		plain, err := b.compare(dir, "bestfit", 0)
		if err != nil {
			return err
		}
		peer := plain.costs("bestfit")
		for _, t := range []struct {
			rebalance string
			must, aim float64
		}{{"every=1h,moves=10%,takes=60s,perhour=2", -5, -7}, {"every=15m,moves=1%,takes=60s", -9, -12}} {
			const policy = "kubernetes-k0.yaml"
			k, err := b.compare(dir, policy, 0, "--rebalance", t.rebalance)
			if err != nil {
				return err
			}
			var less []float64
			for i, own := range k.costs(policy) {
				less = append(less, 100*(own/peer[i]-1))
			}
			share, _ := k.movesShare(policy)
			line := records.Line{
				Work: fmt.Sprintf("kubernetes, %s, %d clusters, %s, --rebalance %s", fleet, m.clusters, policy, t.rebalance), Figure: against, Format: "%+.2f",
				Peers: fmt.Sprintf("%.2f %% of items moved", share), Must: records.AtMost(t.must), Aim: records.AtMost(t.aim),
			}
			line.Value, line.SE = meanSE(less)
			b.line(line)
		}
	}
	return nil
}
