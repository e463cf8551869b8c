package population

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/learned"
	"github.com/sigma-scheduler/sigma/binpack/policy"
)

// Model places items of one dimension by what machines will waste in the end.
var Model = learned.Model{
	Name:         "population",
	Knowledge:    []binpack.Knowledge{binpack.K0, binpack.K0Clock},
	Basis:        "uses no forecast",
	OneDimension: true,
	Parameters:   parameters,
	Learns:       learns,
	Build:        func(s learned.Spec) (binpack.Policy, error) { return New(s) },
	NotLive:      "it packs one dimension; a live cluster has cpu, memory and pods",
}

func init() { policy.Register(&Model) }

// learns lists the parameters that training sets. `fade` needs a clock; `far` and `past`
// stand in for it.
func learns(k binpack.Knowledge, _ bool) []string {
	var names []string
	for _, p := range parameters {
		if k.Clock() && (p.Name == "far" || p.Name == "past") || !k.Clock() && p.Name == "fade" {
			continue
		}
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}

// parameters that a file does not give are in the middle of their range.
var parameters = slices.Concat([]learned.Parameter{
	{Name: "busy", Low: -8, High: 2, Meaning: "ln d: how much each machine in use with room counts among the rivals of one"},
	{Name: "fade", Low: -3.5, High: 2.5, Meaning: "ln g: how the price b of many equal machines falls with the time left"},
	{Name: "bend", Low: -3, High: 2, Meaning: "ln e: how the price b rises with their number"},
	{Name: "start", Low: -4, High: 4, Meaning: "cost of an empty machine, in hundredths of the largest machine"},
	{Name: "base", Low: 0, High: 8, Meaning: "ln of the weight, in items, of the smoothed sizes in the estimate of sizes"},
	{Name: "prior", Low: 0, High: 8, Meaning: "ln of the weight, in items, of the sizes expected before any has come"},
	{Name: "small", Low: 0, High: .4, Meaning: "the smallest of these sizes, as a share of the largest machine"},
	{Name: "large", Low: .4, High: 1, Meaning: "the largest of them"},
	{Name: "far", Low: 0, High: 10, Meaning: "without a clock: ln of the number of items to come when none has"},
	{Name: "past", Low: 0, High: 4, Meaning: "without a clock: items to come for each that has"},
}, ofKnots())

// ofKnots are the parameters that there is one of for each knot.
func ofKnots() []learned.Parameter {
	var list []learned.Parameter
	for i, at := range knotShares {
		where := fmt.Sprintf(", where %g of the largest machine is free", at)
		n := strconv.Itoa(i + 1)
		list = append(list,
			learned.Parameter{Name: "kappa" + n, Low: -2, High: 4, Meaning: "ln κ: how many of the items to come a machine is offered" + where},
			learned.Parameter{Name: "rivals" + n, Low: -1.8, High: 4.2, Meaning: "ln c: its rivals for them" + where},
			learned.Parameter{Name: "crowd" + n, Low: -2, High: 4, Meaning: "ln η: how much each equal machine counts among them" + where},
			learned.Parameter{Name: "excess" + n, Low: -4, High: 2, Meaning: "ln b: price of many equal machines, in hundredths of the largest" + where})
	}
	return list
}
