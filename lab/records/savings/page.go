package savings

import (
	"fmt"
	"path/filepath"

	"github.com/sigma-scheduler/sigma/lab/records"
)

// A page collects the rows of the page.
type page struct {
	cfg    *Config
	bills  records.Table
	checks records.Table
	total  float64
}

func (p *page) add(j *judge, b, used *bill, seconds float64, peakKiB int64) {
	if p.bills.Heads == nil {
		p.bills.Heads = []string{"dump", "cost", "moves", "packing", "other numbers", "other types", "rest", "floor", "sizes by use", "CPU-seconds", "peak MiB"}
		p.checks.Heads = []string{"dump", "moves that the cluster admits", "orders placed again", "placements by the other checker", "wrong"}
	}
	p.total += j.total
	money := func(v float64) string { return fmt.Sprintf("%.2f", v) }
	of := func(b *bill, cause string) string {
		s := b.step(cause)
		return money(s.mean())
	}
	size := "unknown"
	if s := used.step("usage"); s.Money != nil {
		size = money(s.mean())
	}
	p.bills.Rows = append(p.bills.Rows, []string{
		j.style.Name, money(b.Cost.Now), of(b, "moves"), of(b, "packing"), of(b, "shapes"), of(b, "types"), money(b.Rest), money(b.Cost.Floor),
		size, fmt.Sprintf("%.1f", seconds), fmt.Sprint(peakKiB / 1024),
	})
	other := fmt.Sprint(j.plans)
	if p.cfg.Checker == "" {
		other = "not run"
	}
	p.checks.Rows = append(p.checks.Rows, []string{j.style.Name, fmt.Sprint(j.moves), fmt.Sprint(j.orders), other, fmt.Sprint(len(j.wrong))})
}

func (p *page) save(faults []string) error {
	out := records.NewPage("Savings of dumps that nobody tuned for")
	out.Text(`` + "`sigma savings`" + ` on dumps of ` + "[lab/clusters](../../lab/clusters)" + `, which share no code with the product or with the demo's generator: clouds,
Kubernetes 1.28 to 1.37, taints, spread, anti-affinity, host ports, budgets, volumes, GPUs, dead and cordoned nodes, Fargate and virtual ones, pods of
other controllers. Cost = the steps + the rest + the floor, a month, in the dump's currency. Sizes by use are of the same cluster with four weeks of made-up use.
CPU-seconds and peak memory are those of ` + "`sigma savings --from`" + `.`)
	out.Table(p.bills)
	out.Text(`Each printed command was typed and gives the figure of its line. Moves were made one after another on the dump, each by the rules of evictions and of
kube-scheduler's filters; placements of orders were put on the dump whole, after the end of pods that are being deleted for good; and the machines in use were counted and priced anew. The other checker reads
the trace and the placements alone.`)
	out.Table(p.checks)
	if len(faults) > 0 {
		out.Heading("Wrong")
		out.List(faults)
	}
	out.Commands(p.total, "make savings-dumps", p.cfg.Version, []string{fmt.Sprintf("bin/sigma-lab records savings --most %d --orders %d", p.cfg.Most, p.cfg.Orders)})
	return out.Save(filepath.Join(p.cfg.Docs, PageFile))
}
