package savings

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sigma-scheduler/sigma/internal/defrag"
	"github.com/sigma-scheduler/sigma/internal/plural"
)

// over is the warning on moves after which the pods of a node use more than it has, by their present use, the mean of each app; ""
// = there are none. Pods that nothing measured count with their requests.
func (p *present) over(r *defrag.Result) string {
	inst, sums := p.given.Instance, map[string]Used{}
	for _, m := range r.Sequence() {
		sums[m.To] = Used{}
	}
	cpu, memory := dimension(inst, "cpu"), dimension(inst, "memory")
	for _, at := range r.Final() {
		name := p.t.MachineName(at.Line, at.Index)
		sum, ok := sums[name]
		if !ok || cpu < 0 || memory < 0 {
			continue
		}
		app := &inst.Apps[p.t.Requests[at.Request].App]
		if of := p.facts.use[app.Name]; of.pods > 0 {
			sums[name] = Used{sum.CPU + of.CPU/of.pods, sum.Memory + of.Memory/of.pods}
		} else {
			sums[name] = Used{sum.CPU + float64(app.Demand[cpu])/float64(inst.Dimensions[cpu].One), sum.Memory + float64(app.Demand[memory])/float64(inst.Dimensions[memory].One)}
		}
	}
	const gib = 1 << 30
	first, worst, nodes := "", 1., 0
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		sum, room := sums[name], p.facts.room[name]
		by := max(sum.CPU/room.CPU, sum.Memory/room.Memory)
		if !(by > 1) || p.facts.room[name] == (Used{}) {
			continue
		}
		if nodes++; by <= worst {
			continue
		}
		worst, first = by, fmt.Sprintf("; %s would use %.1f of %.1f cores", name, sum.CPU, room.CPU)
		if sum.Memory/room.Memory == by {
			first = fmt.Sprintf("; %s would use %.1f GiB of %.1f", name, sum.Memory/gib, room.Memory/gib)
		}
	}
	if nodes > 1 {
		first += ", and " + plural.Of(nodes-1, "more node")
	}
	return first
}
