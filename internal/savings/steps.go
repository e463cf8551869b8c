package savings

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack/bound"
	"github.com/sigma-scheduler/sigma/internal/defrag"
	"github.com/sigma-scheduler/sigma/internal/plural"
	"github.com/sigma-scheduler/sigma/internal/shellword"
)

// boundWork is the work of the linear programs of one bound.
const boundWork = bound.DefaultWork / 16

// moves is the plan of rebalance: machines that are empty, and those that moves free now.
func (b *builder) moves(ctx context.Context) error {
	b.model, b.after = b.p.loose(0), b.p
	b.least = leastOf(ctx, b.model, b.work())
	most := b.least
	if len(b.p.follow)+len(b.p.held) > 0 {
		still := *b.p
		still.fixed = b.p.stay()
		most = leastOf(ctx, still.loose(0), b.work())
	}
	hourly, before := 0., b.nodes
	moved := 0
	command, prints, rounds, hot := "", Cents(0), 1, ""
	group := map[string]string{} // of a request
	for _, q := range b.p.t.Requests {
		group[q.Name] = groupName(b.p.t.Instance, b.p.t.Instance.Apps[q.App].Group)
	}
	if len(b.p.t.Placed) > 0 {
		now := *b.p.t
		now.Instance = defrag.Movable(b.p.given).Instance
		start, err := defrag.NewStart(&now)
		if err != nil {
			return err
		}
		r, err := defrag.Search(ctx, start, defrag.Options{Share: -1, Count: -1, UntilBound: true, ByCost: true, Seed: b.opt.Seed})
		if err != nil {
			return err
		}
		hourly, moved, b.nodes = r.CostAfter, r.Moves, float64(r.MachinesAfter)
		b.moved = r.CostAfter
		by := map[string]int{} // moves by workload
		for _, m := range r.Sequence() {
			by[group[m.Request]]++
		}
		rounds, hot = b.p.facts.rounds(by), b.p.over(r)
		if b.freed = len(r.Sequence()) > 0; b.freed {
			own, t := *b.p, *b.p.t
			t.Placed, own.t = r.Final(), &t
			b.after = &own
			b.model = b.after.loose(0)
		}
		if r.Saving.Money != nil {
			prints = Cents(math.Round(100 * *r.Saving.Money))
		}
		if b.bill.pods > 0 {
			command = fmt.Sprintf("sigma rebalance --trace %s --until-bound --objective cost%s --out moves.csv", b.trace(), b.seed())
		}
	}
	after := min(b.level, aMonth(hourly)+b.always)
	text, empty := fmt.Sprintf("move %s now", plural.Of(moved, "pod")), len(b.empty)+len(b.ending)
	switch {
	case empty > 0 && moved > 0:
		text = fmt.Sprintf("remove %s, %s", plural.Of(empty, "empty node"), text)
	case empty > 0:
		text = "remove " + plural.Of(empty, "empty node")
	case moved == 0:
		text = "move pods now: none frees a node"
	}
	step := Step{
		Cause: "moves", Nodes: before - b.nodes + float64(empty), Money: fixedMoney(b.level - after),
		Bound: max(0, b.level-b.monthly(most.cost)), Command: command, Prints: prints,
		Risk: fmt.Sprintf("%s start again elsewhere", plural.Of(moved, "pod")),
		text: text, Remove: b.empty,
	}
	if rounds > 1 {
		step.Risk += fmt.Sprintf(", in at least %d rounds: disruption budgets let only some of a workload go at once", rounds)
	}
	if step.Risk += hot; hot != "" {
		step.advice = "risk: " + strings.TrimPrefix(hot, "; ")
	}
	if n := len(b.ending); n > 0 {
		first := b.ending[0]
		if n > 1 {
			first += fmt.Sprintf(" and %d more", n-1)
		}
		wait := first + ": wait for the end of pods that are being deleted"
		step.Risk += "; " + wait
		step.advice = cmp.Or(step.advice, wait)
	}
	if len(b.empty) > 0 {
		step.deletion = deletion(b.empty)
	}
	b.add(step)
	return nil
}

// deletion is the command that deletes nodes.
func deletion(nodes []string) string {
	words := []string{"kubectl delete node"}
	for _, name := range nodes {
		words = append(words, shellword.Quote(name))
	}
	return strings.Join(words, " ")
}

// monthly is the money of a month of machines with items that cost so much an hour, with the nodes that are always
// in the bill.
func (b *builder) monthly(hourly float64) Cents { return aMonth(hourly) + b.always }

// add appends a step and lowers the level.
func (b *builder) add(s Step) {
	b.bill.Steps = append(b.bill.Steps, s)
	if s.Money != nil {
		b.level -= s.Money.Mean
	}
}

// work is the effort for a bound; large clusters have none to spare.
func (b *builder) work() int64 {
	if b.bill.pods > 5000 {
		return 0
	}
	return boundWork
}

// floor sets the proven least cost and the rest.
func (b *builder) floor(context.Context) error {
	b.bill.Cost.Floor = min(b.monthly(b.least.cost), b.level)
	if b.bill.binds = b.least.binds; b.always > aMonth(b.least.cost) {
		b.bill.binds = "nodes that stay"
	}
	b.bill.Rest = b.level - b.bill.Cost.Floor
	return nil
}
