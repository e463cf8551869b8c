package planned

import (
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/learned"
)

// Model follows a packing of all items that are known to arrive.
var Model = learned.Model{
	Name:       "plan",
	Knowledge:  []binpack.Knowledge{binpack.K2},
	Basis:      "follows the true counts",
	Parameters: parameters,
	Learns:     func(binpack.Knowledge, bool) []string { return []string{"reserve", "slack"} },
	Build:      build,
}

var parameters = []learned.Parameter{
	{Name: "steps", Low: 0, High: 100_000, Meaning: "steps of ruin and recreate before the planned fleet grows; 0 = the planner's default"},
	{Name: "slack", Low: 0, High: .5, Meaning: "share of machines planned beyond the volume bound"},
	{Name: "reserve", Low: 0, High: 100, Meaning: "price of a reserved machine that a placement makes useless, in machines filled"},
}
